// Why TLS failed, as one line that says what to do.
#pragma once
#include <string>

#include "core/base/error.h"
#include "server_client_mode/wire/security.h"

namespace hopfeed::wire {

/// Of what OpenSSL has just said about `session`. As the end of a sentence that begins with the peer's name;
/// `host`: as a client typed it.
Error tls_failure(SSL* session, const TlsContext& context, const std::string& host);

}  // namespace hopfeed::wire
