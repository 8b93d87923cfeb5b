// ReadyServer has its batches ready: it answers every request at once with a block that was made before, its
// key put right. So what is measured is the wire and the client, and not the sampling.
#pragma once
#include <memory>
#include <string>

#include "wire/address.h"
#include "wire/security.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {

struct ReadyServerOptions {
  LoaderOptions loader;     // the loader whose first batch it sends, again and again
  wire::TlsFiles tls = {};  // cert empty: plain
  int copies = 4;           // of the block, sent in turn
};

class ReadyServer {
 public:
  explicit ReadyServer(const ReadyServerOptions& options);
  ~ReadyServer();
  wire::Address address() const;
  std::size_t block_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed::bench
