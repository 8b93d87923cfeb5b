// Who may talk to whom: a token that both sides know, and TLS.
//
// The token never travels: each side proves that it knows it by an HMAC-SHA-256 over a word for its role, the
// protocol's version and both nonces. Proofs are compared in constant time.
#pragma once
#include <memory>
#include <string>

#include "wire/messages.h"

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

namespace hopfeed::wire {

Nonce new_nonce();
/// `role`: "client" or "server". An empty token gives zeros.
Proof make_proof(std::string_view role, const std::string& token, std::uint16_t version, const Nonce& client,
                 const Nonce& server);
bool same_proof(const Proof& a, const Proof& b);

/// The token of a file (its only line), or of HOPFEED_TOKEN where `file` is empty; empty where neither is.
/// Throws kInvalid for an empty or short one (16 characters at least), kIo or kNotFound naming the file.
/// Never printed.
std::string read_token(const std::string& file);

/// Files in PEM.
struct TlsFiles {
  std::string cert, key;  // this side's own; a client's only where the server wants one
  std::string ca;         // whom to trust: a server's --tls-client-ca, a client's --tls-ca
};

/// TLS 1.3 for one side. reload() reads the files again, for connections from then on; it keeps what it has
/// where they cannot be read.
class TlsContext {
 public:
  /// Throws kNotFound, kInvalid naming the file and the reason (expired, key of another certificate).
  static std::shared_ptr<TlsContext> server(const TlsFiles& files);
  static std::shared_ptr<TlsContext> client(const TlsFiles& files);
  ~TlsContext();
  void reload();
  Side side() const { return side_; }
  /// Owned by this until the next reload; SSL objects keep their own share.
  SSL_CTX* get() const;
  /// For one connection, of what is loaded now; the caller frees it. Any thread, as reload().
  SSL* new_session() const;
  const TlsFiles& files() const { return files_; }

 private:
  TlsContext(Side side, TlsFiles files);
  const Side side_;
  const TlsFiles files_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed::wire
