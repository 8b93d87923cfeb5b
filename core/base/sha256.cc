// See sha256.h.
#include "core/base/sha256.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/owned_fd.h"

namespace hopfeed {
namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* bytes, std::size_t size) { check(EVP_DigestUpdate(context_.get(), bytes, size) == 1); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

 private:
  static void check(bool done) {
    if (!done) throw Error(ErrorCode::kNoSpace, "no memory for a SHA-256; free some");
  }
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

std::string sha256_of_file(const std::filesystem::path& file) {
  const std::string what = fmt::format("cannot read {}", file.string());
  const OwnedFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC), what.c_str());
  Digest digest;
  std::vector<std::byte> piece(std::size_t{1} << 16);
  for (;;) {
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(what, errno);
    if (got == 0) return digest.hex();
    digest.add(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace hopfeed
