// Login: who is there, which version both speak, and whether both know the token. See connection.h, and
// docs/protocol.md for the order of frames.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "core/base/error.h"
#include "wire/caller.h"
#include "wire/connection.h"
#include "wire/security.h"

namespace hopfeed::wire {
namespace {

constexpr std::uint16_t kOldestVersion = kOldestProtocolVersion;
constexpr std::chrono::milliseconds kLoginsOwn{0};  // the deadline of login counts

std::string versions(int oldest, int newest) {
  return oldest == newest ? fmt::format("{}", oldest) : fmt::format("{} to {}", oldest, newest);
}

/// The next frame's header, which has to be of this type. Throws what the other side refuses.
asio::awaitable<FrameHeader> expect_header(Connection& connection, FrameType type) {
  const FrameHeader header = co_await connection.read_header(kLoginsOwn);
  if (header.type == FrameType::kRefused) {
    const Bytes refusal = co_await connection.read_payload(header);  // g++ 12 frees it twice within a throw
    throw refusal_in(connection, refusal);
  }
  if (header.type != type)
    throw Error(ErrorCode::kCorrupt, fmt::format("{} sent {} where {} was expected", connection.peer(),
                                                 name_of(header.type), name_of(type)));
  co_return header;
}

/// The payload of the next frame, which has to be of this type. Throws what the other side refuses.
asio::awaitable<Bytes> expect(Connection& connection, FrameType type) {
  const FrameHeader header = co_await expect_header(connection, type);
  co_return co_await connection.read_payload(header);
}

/// kWelcome: the proof is checked before memory is taken for what is offered.
asio::awaitable<Welcome> expect_welcome(Connection& connection, const Proof& proof,
                                        std::string_view token_field) {
  const FrameHeader header = co_await expect_header(connection, FrameType::kWelcome);
  if (header.bytes < kProofBytes)
    throw Error(ErrorCode::kCorrupt, fmt::format("{} sent WELCOME without its proof", connection.peer()));
  Proof given;
  co_await connection.read(given);
  if (!same_proof(proof, given))
    throw Error(ErrorCode::kInvalid, fmt::format("{} does not know the token; give both sides the same {}",
                                                 connection.peer(), marked(token_field)));
  Bytes payload = co_await connection.read_payload(
      {.type = header.type, .request = header.request, .bytes = header.bytes - kProofBytes});
  payload.insert(payload.begin(), given.begin(), given.end());
  co_return from_bytes<Welcome>(payload);
}

asio::awaitable<Offer> client_login(Connection& connection, std::string token, std::string name,
                                    std::string_view token_field) {
  const Nonce nonce = new_nonce();
  const std::uint16_t newest = connection.newest_version();
  connection.send(
      FrameType::kHello, 0,
      to_bytes(Hello{.min_version = kOldestVersion, .max_version = newest, .nonce = nonce, .name = name}));
  const Challenge challenge = from_bytes<Challenge>(co_await expect(connection, FrameType::kChallenge));
  const std::string& peer = connection.peer();
  if (challenge.version < kOldestVersion || challenge.version > newest)
    throw Error(ErrorCode::kVersion,
                fmt::format("{} speaks protocol {}, and this client {}; use one version on both sides", peer,
                            challenge.version, versions(kOldestVersion, newest)));
  if (challenge.wants_token && token.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} wants a token; give {}, or set HOPFEED_TOKEN", peer, marked(token_field)));
  if (!challenge.wants_token && !token.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} asks for no token, and so cannot show that it knows yours; start it with the "
                            "same {}, or give none",
                            peer, marked(token_field)));
  const Proof mine = make_proof("client", token, challenge.version, nonce, challenge.nonce),
              its = make_proof("server", token, challenge.version, nonce, challenge.nonce);
  connection.send(FrameType::kLogin, 0, to_bytes(Login{.proof = mine}));
  Welcome welcome = co_await expect_welcome(connection, its, token_field);
  connection.set_open({.version = challenge.version, .checksums = welcome.offer.checksums});
  co_return std::move(welcome.offer);
}

asio::awaitable<std::string> server_login(Connection& connection, const std::string& token,
                                          const Offer& offer, std::chrono::milliseconds after_wrong_proof) {
  const Hello hello = from_bytes<Hello>(co_await expect(connection, FrameType::kHello));
  const std::uint16_t newest = connection.newest_version();
  if (hello.min_version > newest || hello.max_version < kOldestVersion)
    throw Error(
        ErrorCode::kVersion,
        fmt::format("this server speaks protocol {}, and the client {}; use one version on both sides",
                    versions(kOldestVersion, newest), versions(hello.min_version, hello.max_version)));
  const Challenge challenge{
      .version = std::min(hello.max_version, newest), .wants_token = !token.empty(), .nonce = new_nonce()};
  connection.send(FrameType::kChallenge, 0, to_bytes(challenge));
  const Login login = from_bytes<Login>(co_await expect(connection, FrameType::kLogin));
  const Proof its = make_proof("client", token, challenge.version, hello.nonce, challenge.nonce),
              mine = make_proof("server", token, challenge.version, hello.nonce, challenge.nonce);
  if (!same_proof(its, login.proof)) {
    boost::system::error_code ignored;
    asio::steady_timer delay(co_await asio::this_coro::executor, after_wrong_proof);
    co_await delay.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    throw Error(ErrorCode::kInvalid,
                "the token is another than this server's; give both sides the same " + marked("token_file"));
  }
  connection.send(FrameType::kWelcome, 0, to_bytes(Welcome{.proof = mine, .offer = offer}));
  connection.set_open({.version = challenge.version, .checksums = offer.checksums});
  co_return hello.name;
}

}  // namespace

asio::awaitable<Offer> login_as_client(Connection& connection, const std::string& token,
                                       const std::string& name, std::string_view token_field) {
  return [](Connection& connection, std::string token, std::string name,
            std::string_view token_field) -> asio::awaitable<Offer> {
    try {
      co_return co_await client_login(connection, token, name, token_field);
    } catch (const Error&) {
      connection.close();  // the server need not wait for the rest
      throw;
    }
  }(connection, token, name, token_field);
}

asio::awaitable<std::string> login_as_server(Connection& connection, const std::string& token,
                                             const Offer& offer,
                                             std::chrono::milliseconds after_wrong_proof) {
  return [](Connection& connection, std::string token, Offer offer,
            std::chrono::milliseconds after_wrong_proof) -> asio::awaitable<std::string> {
    std::optional<Error> refusal;
    try {
      co_return co_await server_login(connection, token, offer, after_wrong_proof);
    } catch (const Error& error) {
      refusal = error;
    }
    if (!connection.closed()) co_await connection.refuse(*refusal);
    throw *refusal;
  }(connection, token, offer, after_wrong_proof);
}

}  // namespace hopfeed::wire
