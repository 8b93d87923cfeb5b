// Makes a self-signed certificate for 127.0.0.1 in a temporary folder, by OpenSSL's program.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "wire/security.h"

namespace hopfeed::bench {

class MadeCertificate {
 public:
  MadeCertificate() {
    std::string name = (std::filesystem::temp_directory_path() / "hopfeed-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw_errno("cannot make a folder for a certificate", errno);
    folder_ = name;
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost "
        "-addext "
        "'subjectAltName=IP:127.0.0.1,DNS:localhost' -keyout " +
        files().key + " -out " + files().cert + " >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0)
      throw Error(ErrorCode::kNotFound,
                  "the program openssl made no certificate; install it (apt-get install openssl)");
  }
  ~MadeCertificate() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  wire::TlsFiles files() const {
    return {.cert = folder_ / "cert.pem", .key = folder_ / "key.pem", .ca = {}};
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace hopfeed::bench
