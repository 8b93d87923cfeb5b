// See metrics_http.h.
#include "server_client_mode/server/metrics_http.h"

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_static_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <utility>

namespace hopfeed {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using HttpStream = beast::basic_stream<asio::generic::stream_protocol>;

constexpr std::chrono::seconds kPatience{5};  // with a request, with what reads the answer
constexpr std::size_t kMaxRequest = 8 << 10;
constexpr std::chrono::seconds kFarewell{1};
constexpr std::size_t kHeardOut = 64 << 10;  // of a body that nobody wants

http::response<http::string_body> page_of(const http::request<http::empty_body>& request,
                                          const MetricsPages& pages, bool has_body) {
  http::response<http::string_body> page(http::status::ok, request.version());
  page.set(http::field::content_type, "text/plain; charset=utf-8");
  page.keep_alive(request.keep_alive() && !has_body);
  const auto target = request.target().substr(0, request.target().find('?'));  // Prometheus' params
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    page.result(http::status::method_not_allowed);
    page.set(http::field::allow, "GET, HEAD");
    page.body() = "only GET and HEAD\n";
  } else if (target == "/metrics") {
    page.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    page.body() = pages.metrics();
  } else if (target == "/healthz") {
    page.body() = "ok\n";
  } else if (target == "/readyz") {
    const bool ready = pages.ready();
    if (!ready) page.result(http::status::service_unavailable);
    page.body() = ready ? "ready\n" : "not ready\n";
  } else {
    page.result(http::status::not_found);
    page.body() = "there are /metrics, /healthz and /readyz\n";
  }
  page.prepare_payload();
  if (request.method() == http::verb::head) page.body().clear();  // its length stays
  return page;
}

/// In the list for as long as it lives.
class Idle {
 public:
  Idle(IdleConnections& all, HttpStream& stream) : all_(all), at_(all.insert(all.end(), &stream.socket())) {}
  ~Idle() { all_.erase(at_); }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

 private:
  IdleConnections& all_;
  const IdleConnections::iterator at_;
};

/// Unread bytes would make the operating system break off, and the answer would be lost.
asio::awaitable<void> hear_out(HttpStream& stream) {
  boost::system::error_code error;
  stream.socket().shutdown(HttpStream::socket_type::shutdown_send, error);
  stream.expires_after(kFarewell);
  std::array<char, 4096> unread;
  const asio::mutable_buffer buffer(unread.data(), unread.size());
  for (std::size_t heard = 0; !error && heard < kHeardOut;)
    heard += co_await stream.async_read_some(buffer, asio::redirect_error(asio::use_awaitable, error));
}

asio::awaitable<void> serve_all(HttpStream& stream, const MetricsPages& pages, IdleConnections& idle) {
  beast::flat_static_buffer<kMaxRequest> buffer;
  for (bool more = true; more;) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMaxRequest);
    stream.expires_after(kPatience);
    {
      const Idle waits(idle, stream);
      co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
    }
    const bool has_body = !parser.is_done();
    http::response<http::string_body> page = page_of(parser.get(), pages, has_body);
    stream.expires_after(kPatience);
    co_await http::async_write(stream, page, asio::use_awaitable);
    if (has_body) co_await hear_out(stream);
    more = page.keep_alive();
  }
}

}  // namespace

asio::awaitable<void> serve_metrics(asio::generic::stream_protocol::socket socket, const MetricsPages& pages,
                                    IdleConnections& idle) {
  HttpStream stream(std::move(socket));
  try {
    co_await serve_all(stream, pages, idle);
  } catch (const std::exception&) {  // who asks has gone, or asks for something that is no HTTP
  }
}

}  // namespace hopfeed
