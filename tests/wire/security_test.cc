// TLS: who is refused is told why, on his own side, in one line (F22); certificates are changed while
// connections live.
#include "wire/security.h"

#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/expect_refused.h"
#include "tests/support/watchdog.h"
#include "tests/wire/wire_support.h"
#include "wire/connection.h"

namespace hopfeed::wire {
namespace {

using testing::Outcome;
using testing::Transport;
using namespace std::chrono_literals;

class OverTls : public testing::WatchedTest<>, public testing::WireFixture {
 protected:
  struct Told {
    std::string client, server;  // what each side threw, or ""
  };
  /// Connects and logs in, with whatever contexts.
  Told meet(std::shared_ptr<TlsContext> server_context, std::shared_ptr<TlsContext> client_context,
            const std::string& host = "127.0.0.1") {
    Listener listener(loop.io.get_executor(), address_for(Transport::kTcp));
    Address address = listener.address();
    address.host = host;
    const auto server = loop.start(serve(listener, server_context));
    const auto client = loop.start(visit(address, client_context));
    loop.run();
    return {.client = client->what(), .server = server->what()};
  }
  static asio::awaitable<void> serve(Listener& listener, std::shared_ptr<TlsContext> context) {
    const ConnectionOptions options{.side = Side::kServer, .peer = "client"};
    const auto connection = co_await accept(listener, context, options);
    const Offer offer;
    co_await login_as_server(*connection, "", offer);
    co_await connection->finish();
  }
  static asio::awaitable<void> visit(Address address, std::shared_ptr<TlsContext> context) {
    const ConnectionOptions options{.peer = "server"};
    const auto connection = co_await Connection::connect(address, context, 5s, options);
    co_await login_as_client(*connection, "", "test");
  }
  std::shared_ptr<TlsContext> server_of(const std::string& name, const std::string& client_ca = "") {
    TlsFiles files = certificates().files(name);
    files.ca = client_ca;
    return TlsContext::server(files);
  }
  std::shared_ptr<TlsContext> client_of(const std::string& name) {
    TlsFiles files = name.empty() ? TlsFiles{} : certificates().files(name);
    files.ca = certificates().ca();
    return TlsContext::client(files);
  }
  static void has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nfound: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
};

TEST_F(OverTls, ACertificateOfTheHostIsTaken) {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const Told told = meet(server_tls(), client_tls(), host);
    EXPECT_EQ(told.client, "");
    EXPECT_EQ(told.server, "");
  }
}

TEST_F(OverTls, AnUnknownCaIsNamed) {
  certificates().make({.name = "other-ca", .hosts = "", .signed_by = ""});
  certificates().make({.name = "foreign", .signed_by = "other-ca"});
  const Told told = meet(server_of("foreign"), client_tls());
  has(told.client,
      "server has a certificate that none of the CAs of '" + certificates().ca() + "' has signed");
  has(told.client, "tls_ca");
  has(told.server, "client does not trust the CA of our certificate");
}

TEST_F(OverTls, ASelfSignedCertificateIsTrustedWhereItIsGiven) {
  const TlsFiles files = certificates().make({.name = "alone", .hosts = "IP:127.0.0.1", .signed_by = ""});
  EXPECT_EQ(meet(server_of("alone"), TlsContext::client({.cert = {}, .key = {}, .ca = files.cert})).client,
            "");
  has(meet(server_of("alone"), client_tls()).client, "has signed; give the CA that did by tls_ca");
}

TEST_F(OverTls, AnotherHostIsNamed) {
  certificates().make({.name = "elsewhere", .hosts = "DNS:feeder.example,IP:10.0.0.1"});
  for (const std::string host : {"127.0.0.1", "localhost"})
    has(meet(server_of("elsewhere"), client_tls(), host).client,
        "server has a certificate of feeder.example, 10.0.0.1, and not of '" + host + "'");
}

TEST_F(OverTls, AServerWithAnExpiredCertificateDoesNotStart) {
  certificates().make({.name = "old", .from_day = -30, .to_day = -1});
  certificates().make({.name = "young", .from_day = 1});
  expect_refused([&] { server_of("old"); }, "old.pem' has expired; renew it");
  expect_refused([&] { server_of("young"); }, "young.pem' is not valid yet");
}

// It was valid when the server started: the CA itself has expired since, which its clients see.
TEST_F(OverTls, AnExpiredCaIsSeenByClients) {
  certificates().make({.name = "old-ca", .hosts = "", .from_day = -30, .to_day = -1, .signed_by = ""});
  certificates().make({.name = "left-over", .signed_by = "old-ca"});
  const auto client = TlsContext::client({.cert = {}, .key = {}, .ca = certificates().files("old-ca").cert});
  has(meet(server_of("left-over"), client).client,
      "server has a certificate that has expired; renew it on the server");
}

TEST_F(OverTls, ClientsNeedACertificateWhereTheServerSaysSo) {
  certificates().make({.name = "trainer", .hosts = ""});
  const auto server = server_of("server", certificates().ca());
  EXPECT_EQ(meet(server, client_of("trainer")).client, "");
  const Told told = meet(server, client_of(""));
  has(told.client, "server wants a certificate of its clients; give tls_cert and tls_key");
  has(told.server, "client sent no certificate, which tls_client_ca asks for");
  certificates().make({.name = "other-ca", .hosts = "", .signed_by = ""});
  certificates().make({.name = "stranger", .hosts = "", .signed_by = "other-ca"});
  const Told strange = meet(server, client_of("stranger"));
  has(strange.client, "server does not trust the CA of our certificate");
  has(strange.server, "client has a certificate that none of the CAs of");
}

TEST_F(OverTls, PlainClientsOfATlsServerAreToldSo) {
  const Told told = meet(server_tls(), nullptr);
  has(told.client, "server: this server speaks TLS; give tls_ca to connect to it");
  has(told.server, "client speaks no TLS, which this server asks for");
}

TEST_F(OverTls, TlsClientsOfAPlainServerAreToldSo) {
  const Told told = meet(nullptr, client_tls());
  has(told.client, "server speaks no TLS; leave out tls_ca");
  has(told.server, "what came is TLS");
}

TEST_F(OverTls, ReloadingTakesNewFilesForConnectionsToCome) {
  const auto server = server_tls();
  EXPECT_EQ(meet(server, client_tls()).client, "");
  certificates().make({.hosts = "DNS:moved.example"});  // the same files
  EXPECT_EQ(meet(server, client_tls()).client, "") << "not reloaded yet";
  server->reload();
  has(meet(server, client_tls()).client, "moved.example");
  // What cannot be read changes nothing.
  std::ofstream(certificates().files("server").cert) << "no certificate";
  EXPECT_THROW(server->reload(), Error);
  has(meet(server, client_tls()).client, "moved.example");
}

TEST_F(OverTls, FilesThatAreWrongAreNamed) {
  const TlsFiles good = certificates().files("server");
  const auto with = [&](auto change) {
    TlsFiles files = good;
    change(files);
    return files;
  };
  const auto refuse = [](const TlsFiles& files, const std::string& part,
                         ErrorCode code = ErrorCode::kInvalid) {
    expect_refused([&] { TlsContext::server(files); }, part, code);
  };
  refuse({}, "needs a certificate; give tls_cert and tls_key");
  refuse(with([](TlsFiles& f) { f.key = ""; }), "is given without its key; give tls_key too");
  refuse(with([](TlsFiles& f) { f.cert += ".missing"; }), "cannot read the certificate '",
         ErrorCode::kNotFound);
  refuse(with([](TlsFiles& f) { f.key += ".missing"; }), "cannot read the key '", ErrorCode::kNotFound);
  refuse(with([](TlsFiles& f) { f.ca = "/no/ca"; }), "file of CA certificates '/no/ca'",
         ErrorCode::kNotFound);
  refuse(with([](TlsFiles& f) { f.cert = f.key; }), "is no certificate in PEM");
  refuse(with([](TlsFiles& f) { f.ca = f.key; }), "has no CA certificate in PEM");
  refuse(with([&](TlsFiles& f) { f.key = certificates().files("ca").key; }), "not that of the certificate");
}

// F18: under TLS too.
TEST_F(OverTls, WhoDoesNotShakeHandsIsLeftAfterTheDeadline) {
  Listener listener(loop.io.get_executor(), address_for(Transport::kTcp));
  Socket silent(loop.io);
  const auto server = loop.start(
      accept(listener, server_tls(), {.side = Side::kServer, .peer = "client", .login_deadline = 40ms}));
  const auto client = loop.start([](Socket& socket, Address address) -> asio::awaitable<void> {
    const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address.host), address.port);
    co_await socket.async_connect(endpoint, asio::use_awaitable);
    asio::write(socket, asio::buffer("\x16\x03\x01\x02", 4));
  }(silent, listener.address()));
  loop.run();
  client->get();
  EXPECT_EQ(server->code(), ErrorCode::kTimeout) << server->what();
}

}  // namespace
}  // namespace hopfeed::wire
