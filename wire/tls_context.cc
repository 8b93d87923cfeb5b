// See security.h: certificates, keys and whom to trust, as OpenSSL's context.
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/thread_annotations.h"
#include "wire/openssl_errors.h"
#include "wire/security.h"
#include "wire/tls_errors.h"

namespace hopfeed::wire {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, FreeContext>;

constexpr long kMaxPeerChainBytes = 32 << 10;  // of certificates, before login

void require_readable(const std::string& file, const char* what) {
  if (access(file.c_str(), R_OK) != 0) throw_errno(fmt::format("cannot read the {} '{}'", what, file), errno);
}

/// Throws kInvalid where the certificate's time has passed or not come: each handshake would fail.
void require_in_time(const X509* certificate, const std::string& file) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("the certificate '{}' {}; renew it, or check the clock", file, what));
  };
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) refuse("has expired");
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) refuse("is not valid yet");
}

/// A key that asks for a passphrase would stop the program at a prompt.
int no_passphrase(char*, int, int, void*) { return -1; }

void use_certificate(SSL_CTX* context, const TlsFiles& files) {
  require_readable(files.cert, "certificate");
  require_valid(!files.key.empty(), fmt::format("the certificate '{}' is given without its key; give {} too",
                                                files.cert, marked("tls_key")));
  require_readable(files.key, "key");
  if (SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) != 1)
    throw Error(ErrorCode::kInvalid,
                fmt::format("'{}' is no certificate in PEM: {}", files.cert, take_openssl_reason()));
  require_in_time(SSL_CTX_get0_certificate(context), files.cert);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    // A key that fits another certificate is found here already, since the certificate is there.
    const std::string reason = take_openssl_reason();
    throw Error(ErrorCode::kInvalid, fmt::format("'{}' is no key, or not that of the certificate '{}': {}",
                                                 files.key, files.cert, reason));
  }
}

void trust_file(SSL_CTX* context, const std::string& ca) {
  require_readable(ca, "file of CA certificates");
  if (SSL_CTX_load_verify_file(context, ca.c_str()) != 1)
    throw Error(ErrorCode::kInvalid,
                fmt::format("'{}' has no CA certificate in PEM: {}", ca, take_openssl_reason()));
}

ContextPtr new_context(Side side, const TlsFiles& files) {
  ERR_clear_error();
  ContextPtr context(SSL_CTX_new(side == Side::kServer ? TLS_server_method() : TLS_client_method()));
  if (!context)
    throw Error(ErrorCode::kNoSpace, fmt::format("OpenSSL makes no context: {}", take_openssl_reason()));
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION);
  // AES-128 first: as far out of reach as AES-256 is, and a quarter faster, which is what a block waits for.
  SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_options(raw, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(
      raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);  // every connection logs in anew
  SSL_CTX_set_max_cert_list(raw, kMaxPeerChainBytes);
  if (!files.cert.empty())
    use_certificate(raw, files);
  else
    require_valid(side == Side::kClient, fmt::format("TLS of a server needs a certificate; give {} and {}",
                                                     marked("tls_cert"), marked("tls_key")));
  if (!files.ca.empty()) trust_file(raw, files.ca);
  if (side == Side::kClient) {
    if (files.ca.empty() && SSL_CTX_set_default_verify_paths(raw) != 1)
      throw Error(ErrorCode::kNotFound,
                  "the system's CA certificates cannot be read; give " + marked("tls_ca"));
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, note_refused_certificate);
  } else if (!files.ca.empty()) {
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_refused_certificate);
    // Told to clients, so that who has several certificates knows which to send.
    SSL_CTX_set_client_CA_list(raw, SSL_load_client_CA_file(files.ca.c_str()));
  }
  ERR_clear_error();
  return context;
}

}  // namespace

std::string take_openssl_reason() {
  unsigned long last = 0;
  while (const unsigned long error = ERR_get_error()) last = error;
  const char* const reason = last == 0 ? nullptr : ERR_reason_error_string(last);
  return reason == nullptr ? "no reason given" : reason;
}

struct TlsContext::Impl {
  Mutex mutex;
  ContextPtr context GUARDED_BY(mutex);
};

TlsContext::TlsContext(Side side, TlsFiles files)
    : side_(side), files_(std::move(files)), impl_(std::make_unique<Impl>()) {
  reload();
}

TlsContext::~TlsContext() = default;

std::shared_ptr<TlsContext> TlsContext::server(const TlsFiles& files) {
  return std::shared_ptr<TlsContext>(new TlsContext(Side::kServer, files));
}

std::shared_ptr<TlsContext> TlsContext::client(const TlsFiles& files) {
  return std::shared_ptr<TlsContext>(new TlsContext(Side::kClient, files));
}

void TlsContext::reload() {
  ContextPtr fresh = new_context(side_, files_);
  const MutexLock lock(impl_->mutex);
  impl_->context.swap(fresh);
}

SSL_CTX* TlsContext::get() const {
  const MutexLock lock(impl_->mutex);
  return impl_->context.get();
}

SSL* TlsContext::new_session() const {
  const MutexLock lock(impl_->mutex);  // against a reload meanwhile
  SSL* const session = SSL_new(impl_->context.get());
  if (session == nullptr)
    throw Error(ErrorCode::kNoSpace, fmt::format("OpenSSL makes no session: {}", take_openssl_reason()));
  return session;
}

}  // namespace hopfeed::wire
