// See security.h: nonces, proofs and where the token comes from.
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/owned_fd.h"
#include "core/base/secrets.h"
#include "wire/byte_codec.h"
#include "wire/security.h"

namespace hopfeed::wire {
namespace {

const unsigned char* chars(const void* bytes) { return static_cast<const unsigned char*>(bytes); }

/// Printable ASCII without spaces; nothing of a token is shown, also where it is refused.
std::string checked_token(std::string token, const std::string& from) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool clean = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  require_valid(!token.empty(),
                fmt::format("the token of {} is empty; write one of {} characters or more, such "
                            "as 'openssl rand -hex 32' makes",
                            from, kMinTokenBytes));
  require_valid(clean,
                fmt::format("the token of {} is not one line of printable characters without spaces", from));
  require_valid(
      token.size() >= kMinTokenBytes,
      fmt::format("the token of {} has {} characters, and needs {} or more, such as 'openssl rand -hex "
                  "32' makes",
                  from, token.size(), kMinTokenBytes));
  require_valid(token.size() <= kMaxTokenBytes,
                fmt::format("the token of {} has more than {} characters", from, kMaxTokenBytes));
  return token;
}

}  // namespace

Nonce new_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1)
    throw Error(ErrorCode::kIo, "the operating system gives no random numbers for a login");
  return nonce;
}

Proof make_proof(std::string_view role, const std::string& token, std::uint16_t version, const Nonce& client,
                 const Nonce& server) {
  Proof proof{};
  if (token.empty()) return proof;
  ByteWriter said(64 + 2 * kNonceBytes);
  said.text("hopfeed login, ");
  said.text(role);
  said.number(std::uint8_t{0});
  said.number(version);
  said.raw(client);
  said.raw(server);
  const Bytes bytes = said.take();
  unsigned size = 0;
  if (HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), chars(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &size) == nullptr ||
      size != proof.size())
    throw Error(ErrorCode::kNoSpace, "OpenSSL computes no HMAC-SHA-256 for a login");
  return proof;
}

bool same_proof(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

std::string read_token(const std::string& file) {
  if (file.empty()) {
    const std::string value = environment_token();
    return value.empty() ? std::string() : checked_token(value, kTokenVariable);
  }
  const std::string name = fmt::format("token file '{}'", as_line(file, 512));
  const OwnedFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno(fmt::format("cannot read {}", name), errno);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) throw_errno(fmt::format("cannot read {}", name), errno);
  require_valid(!S_ISDIR(status.st_mode),
                fmt::format("cannot read {}: it is a folder; name the file in it", name));
  std::string token(kMaxTokenBytes + 8, '\0');  // a longer one is seen to be
  std::size_t size = 0;
  while (size < token.size()) {
    const ssize_t got = read(fd.get(), token.data() + size, token.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(fmt::format("cannot read {}", name), errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  token.resize(size);
  return checked_token(std::move(token), name);
}

}  // namespace hopfeed::wire
