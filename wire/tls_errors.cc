// See tls_errors.h.
#include "wire/tls_errors.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/plain_text.h"
#include "wire/openssl_errors.h"

namespace hopfeed::wire {
namespace {

/// The names and numbers that a certificate is for: "a.example, 10.0.0.1".
std::string names_of(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::string told;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    std::string one;
    if (name->type == GEN_DNS) {
      one.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                 static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD && ASN1_STRING_length(name->d.iPAddress) == 4) {
      const unsigned char* const n = ASN1_STRING_get0_data(name->d.iPAddress);
      one = fmt::format("{}.{}.{}.{}", n[0], n[1], n[2], n[3]);
    } else {
      continue;
    }
    told += (told.empty() ? "" : ", ") + one;
  }
  return told.empty() ? "no host that it names" : as_line(told, 256);
}

std::string trusted(const TlsContext& context) {
  return context.files().ca.empty() ? "the system's CAs" : fmt::format("the CAs of '{}'", context.files().ca);
}

/// The other side's certificate did not pass.
Error refused_certificate(SSL* session, const TlsContext& context, const std::string& host) {
  const bool of_server = context.side() == Side::kClient;
  const auto* const seen = static_cast<const SeenCertificate*>(SSL_get_app_data(session));
  const long result = SSL_get_verify_result(session);
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {ErrorCode::kInvalid, fmt::format("has a certificate that has expired; renew it{}",
                                               of_server ? " on the server" : "")};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {ErrorCode::kInvalid,
              "has a certificate that is not valid yet; check the clocks of both machines"};
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return {
          ErrorCode::kInvalid,
          fmt::format("has a certificate of {}, and not of '{}'; connect to it by that name, or give it a "
                      "certificate of this one",
                      seen != nullptr && !seen->hosts.empty() ? seen->hosts : "another host", host)};
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_UNTRUSTED:
      return {ErrorCode::kInvalid,
              fmt::format("has a certificate that none of {} has signed; {}", trusted(context),
                          of_server ? "give the CA that did by " + marked("tls_ca")
                                    : fmt::format("give the client one of theirs ({}), or add its CA to {}",
                                                  marked("tls_cert"), marked("tls_client_ca")))};
    default:
      return {ErrorCode::kInvalid, fmt::format("has a certificate that is not accepted: {}",
                                               X509_verify_cert_error_string(result))};
  }
}

/// What the other side said as it broke off; empty: nothing that is about certificates.
std::string alert_text(int reason) {
  switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return fmt::format("wants a certificate of its clients; give {} and {}", marked("tls_cert"),
                         marked("tls_key"));
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "does not trust the CA of our certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "refuses our certificate: it has expired; renew it";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "refuses our certificate";
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
      return "speaks another version of TLS, and 1.3 is needed";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return fmt::format("sent no certificate, which {} asks for", marked("tls_client_ca"));
    default:
      return "";
  }
}

}  // namespace

int note_refused_certificate(int accepted, X509_STORE_CTX* store) {
  if (accepted == 1) return 1;
  auto* const session =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const seen = session == nullptr ? nullptr : static_cast<SeenCertificate*>(SSL_get_app_data(session));
  if (const X509* const peer = X509_STORE_CTX_get0_cert(store); seen != nullptr && peer != nullptr)
    seen->hosts = names_of(peer);
  return accepted;
}

Error tls_failure(SSL* session, const TlsContext& context, const std::string& host) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    ERR_clear_error();
    return refused_certificate(session, context, host);
  }
  if (const std::string text = alert_text(reason); !text.empty()) {
    ERR_clear_error();
    return {ErrorCode::kInvalid, text};
  }
  if (reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC) {
    ERR_clear_error();
    return {ErrorCode::kCorrupt, "sent bytes that were changed on their way"};
  }
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return {ErrorCode::kPeerDied, "closed the connection"};
  }
  return {ErrorCode::kCorrupt,
          fmt::format("and this side do not understand each other's TLS: {}", take_openssl_reason())};
}

}  // namespace hopfeed::wire
