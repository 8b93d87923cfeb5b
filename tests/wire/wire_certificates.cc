// See wire_certificates.h.
#include "tests/wire/wire_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <map>

namespace hopfeed::testing {
namespace {

template <auto release>
struct Free {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;

void check(bool holds) {
  if (!holds) std::abort();  // of the test's own making
}

void extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1);
}

}  // namespace

struct Certificates::Made {
  std::map<std::string, std::pair<Key, Certificate>> by_name;
  long serial = 1;
};

Certificates::Certificates() : made_(std::make_unique<Made>()) {
  make({.name = "ca", .hosts = "", .signed_by = ""});
}
Certificates::~Certificates() = default;

wire::TlsFiles Certificates::files(const std::string& name) const {
  return {.cert = folder_.path() / (name + ".pem"), .key = folder_.path() / (name + ".key"), .ca = {}};
}

wire::TlsFiles Certificates::make(const CertificateOptions& options) {
  constexpr long kDay = 86'400;
  Key key(EVP_EC_gen("P-256"));
  Certificate certificate(X509_new());
  check(key && certificate);
  X509* const raw = certificate.get();
  const bool is_ca = options.signed_by.empty();
  X509_set_version(raw, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(raw), made_->serial++);
  X509_gmtime_adj(X509_getm_notBefore(raw), options.from_day * kDay);
  X509_gmtime_adj(X509_getm_notAfter(raw), options.to_day * kDay);
  X509_set_pubkey(raw, key.get());
  const auto* const name = reinterpret_cast<const unsigned char*>(options.name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(raw), "CN", MBSTRING_ASC, name, -1, -1, 0);
  X509* const issuer = is_ca ? raw : made_->by_name.at(options.signed_by).second.get();
  EVP_PKEY* const signer = is_ca ? key.get() : made_->by_name.at(options.signed_by).first.get();
  X509_set_issuer_name(raw, X509_get_subject_name(issuer));
  extend(raw, issuer, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!options.hosts.empty()) extend(raw, issuer, NID_subject_alt_name, options.hosts);
  check(X509_sign(raw, signer, EVP_sha256()) > 0);
  const wire::TlsFiles files = this->files(options.name);
  const std::unique_ptr<FILE, Free<std::fclose>> cert_file(std::fopen(files.cert.c_str(), "w")),
      key_file(std::fopen(files.key.c_str(), "w"));
  check(cert_file && key_file && PEM_write_X509(cert_file.get(), raw) == 1 &&
        PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  made_->by_name.insert_or_assign(options.name, std::pair{std::move(key), std::move(certificate)});
  return files;
}

}  // namespace hopfeed::testing
