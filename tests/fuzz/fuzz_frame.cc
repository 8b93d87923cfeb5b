// Any bytes as frames: the first byte says who receives them and when, the rest is read frame by frame. What
// is taken is no longer than its type may be, and its message is refused with an Error or read, within its
// bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/base/error.h"
#include "core/base/plain_text.h"
#include "tests/wire/sample_messages.h"
#include "wire/frame.h"

namespace {

using namespace hopfeed;

/// What texts are shown as is one, whatever they were.
void show(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_text(as_line(text, 100), Lines::kOne)) std::abort();
  if (!is_text(wire::looks_like(bytes), Lines::kOne)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto side = data[0] % 2 == 0 ? wire::Side::kServer : wire::Side::kClient;
  const auto phase = data[0] / 2 % 2 == 0 ? wire::Phase::kOpen : wire::Phase::kLogin;
  std::span<const std::byte> left(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  show(left);
  while (left.size() >= wire::kFrameHeaderBytes) {
    std::span<const std::byte> payload;
    wire::FrameHeader header;
    try {
      header = wire::read_header(left.first<wire::kFrameHeaderBytes>(), side, phase);
      if (header.bytes > wire::max_payload(header.type)) std::abort();
      left = left.subspan(wire::kFrameHeaderBytes);
      payload = left.first(std::min<std::uint64_t>(left.size(), header.bytes));
      left = left.subspan(payload.size());
      // A copy of its own, so that the sanitizer sees a read behind its end.
      testing::read_payload_of(header.type, wire::Bytes(payload.begin(), payload.end()));
    } catch (const Error& error) {
      if (!is_text(error.what(), Lines::kOne)) std::abort();
      if (payload.empty()) break;  // nothing can follow a header that is none
    }
  }
  return 0;
}
