// See metrics_http.h.
#include "server_client_mode/server/metrics_http.h"

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

http::response<http::string_body> page_of(const http::request<http::empty_body>& request,
                                          const MetricsPages& pages) {
  http::response<http::string_body> page(http::status::ok, request.version());
  page.set(http::field::content_type, "text/plain; charset=utf-8");
  page.keep_alive(request.keep_alive());
  const auto target = request.target();
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

asio::awaitable<void> serve_all(HttpStream& stream, const MetricsPages& pages) {
  beast::flat_static_buffer<kMaxRequest> buffer;
  for (bool more = true; more;) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMaxRequest);
    stream.expires_after(kPatience);
    co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
    http::response<http::string_body> page = page_of(parser.get(), pages);
    stream.expires_after(kPatience);
    co_await http::async_write(stream, page, asio::use_awaitable);
    more = page.keep_alive();
  }
}

}  // namespace

asio::awaitable<void> serve_metrics(asio::generic::stream_protocol::socket socket,
                                    const MetricsPages& pages) {
  HttpStream stream(std::move(socket));
  try {
    co_await serve_all(stream, pages);
  } catch (const std::exception&) {  // who asks has gone, or asks for something that is no HTTP
  }
}

}  // namespace hopfeed
