// Makes an authority and a certificate of 127.0.0.1 and localhost, by openssl for one run of a test program.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed::testing {

class ClientCertificates {
 public:
  ClientCertificates() {
    const std::string folder = folder_.path().string();
    const std::string script =
        "cd " + folder +
        " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem"
        " -days 2 -subj /CN=hopfeed-tests"
        " && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out "
        "server.csr"
        " -subj /CN=localhost"
        " && printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' > names"
        " && openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days "
        "2"
        " -extfile names";
    const ProgramResult made = run_program({"/bin/sh", "-c", script});
    if (made.exit_code != 0)
      throw Error(ErrorCode::kIo, "openssl makes no certificates for the tests: " + made.err);
  }
  std::string ca() const { return (folder_.path() / "ca.pem").string(); }
  std::string cert() const { return (folder_.path() / "server.pem").string(); }
  std::string key() const { return (folder_.path() / "server.key").string(); }

 private:
  TempFolder folder_;
};

}  // namespace hopfeed::testing
