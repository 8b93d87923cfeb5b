// Why TLS failed, as one line that says what to do.
#pragma once
#include <openssl/types.h>

#include <string>

#include "core/base/error.h"
#include "wire/security.h"

namespace hopfeed::wire {

/// The hosts that a certificate is for, as far as OpenSSL looked at one: a session keeps it in its app data.
struct SeenCertificate {
  std::string hosts;
};
/// For SSL_CTX_set_verify(): refuses what OpenSSL refuses, and notes what it was.
int note_refused_certificate(int accepted, X509_STORE_CTX* store);

/// The error for what OpenSSL has just said about `session`, as the end of a sentence that begins with the
/// other side's name; `host`: as a client typed it.
Error tls_failure(SSL* session, const TlsContext& context, const std::string& host);

}  // namespace hopfeed::wire
