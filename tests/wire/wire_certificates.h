// Makes certificates for tests by OpenSSL's library in a temporary folder: a CA, what it has signed, and
// others.
#pragma once
#include <memory>
#include <string>

#include "tests/support/tiny_dataset.h"
#include "wire/security.h"

namespace hopfeed::testing {

struct CertificateOptions {
  std::string name = "server";                       // of the files and the subject
  std::string hosts = "IP:127.0.0.1,DNS:localhost";  // as OpenSSL writes names; empty: none
  long from_day = -1, to_day = 30;                   // from now
  std::string signed_by = "ca";                      // the name of one made before; empty: by itself, as a CA
};

class Certificates {
 public:
  /// Makes the CA "ca".
  Certificates();
  ~Certificates();
  /// Makes a certificate; it replaces one of the same name.
  wire::TlsFiles make(const CertificateOptions& options);
  /// Returns the files of a certificate that was made.
  wire::TlsFiles files(const std::string& name) const;
  std::string ca() const { return files("ca").cert; }
  std::string folder() const { return folder_.path().string(); }

 private:
  struct Made;
  TempFolder folder_;
  std::unique_ptr<Made> made_;
};

}  // namespace hopfeed::testing
