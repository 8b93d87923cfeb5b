// The header of a frame: what is no frame, and what a side does not take, is refused before any memory is
// taken (F19, F20).
#include "wire/frame.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/base/limits.h"
#include "tests/support/expect_refused.h"
#include "wire/crc32c.h"
#include "wire/messages.h"

namespace hopfeed::wire {
namespace {

using Header = std::array<std::byte, kFrameHeaderBytes>;

Header header_of(const FrameHeader& header) {
  Header bytes;
  write_header(header, bytes);
  return bytes;
}

Header text_header(std::string_view text) {
  Header bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size()));
  return bytes;
}

constexpr std::uint16_t kNumbers = 40;  // more than there are types

template <class Body>
void for_each_type(Body body) {
  for (std::uint16_t number = 0; number < kNumbers; ++number)
    if (const auto type = static_cast<FrameType>(number); !name_of(type).empty()) body(type);
}

/// Whether a side takes a type in a phase.
bool takes(FrameType type, Side side, Phase phase) {
  try {
    read_header(header_of({.type = type}), side, phase);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    return false;
  }
}

TEST(Frame, HeadersAreReadAsTheyWereWritten) {
  const FrameHeader header{.type = FrameType::kBlock, .request = 0x0102030405060708, .bytes = 0x1122334455};
  const FrameHeader read = read_header(header_of(header), Side::kClient, Phase::kOpen);
  EXPECT_EQ(read.type, header.type);
  EXPECT_EQ(read.request, header.request);
  EXPECT_EQ(read.bytes, header.bytes);
}

TEST(Frame, EachTypeGoesOneWayInOnePhase) {
  int both_ways = 0, types = 0;
  for_each_type([&](FrameType type) {
    ++types;
    const bool to_client =
                   takes(type, Side::kClient, Phase::kOpen) || takes(type, Side::kClient, Phase::kLogin),
               to_server =
                   takes(type, Side::kServer, Phase::kOpen) || takes(type, Side::kServer, Phase::kLogin);
    EXPECT_TRUE(to_client || to_server) << name_of(type);
    both_ways += to_client && to_server;
    const Side side = to_client ? Side::kClient : Side::kServer;
    if (type == FrameType::kRefused)
      EXPECT_TRUE(takes(type, side, Phase::kOpen) && takes(type, side, Phase::kLogin));
    else
      EXPECT_NE(takes(type, side, Phase::kOpen), takes(type, side, Phase::kLogin)) << name_of(type);
  });
  EXPECT_EQ(types, 27);
  EXPECT_EQ(both_ways, 2);  // PING and PONG
}

TEST(Frame, OnlyHelloAndLoginAreTakenFromWhoIsNotLoggedIn) {
  for_each_type([&](FrameType type) {
    EXPECT_EQ(takes(type, Side::kServer, Phase::kLogin),
              type == FrameType::kHello || type == FrameType::kLogin)
        << name_of(type);
  });
}

TEST(Frame, TypesThatAreNoneAreRefused) {
  for (const std::uint16_t number : {0, 6, 9, 19 + 8, 29, 35, 39, 42, 255, 256, 65'535}) {
    const auto type = static_cast<FrameType>(number);
    EXPECT_TRUE(name_of(type).empty()) << number;
    expect_refused([&] { read_header(header_of({.type = type}), Side::kServer, Phase::kOpen); },
                   "of type " + std::to_string(number));
  }
}

TEST(Frame, ReservedBytesAreZero) {
  Header bytes = header_of({.type = FrameType::kPing});
  bytes[7] = std::byte{1};
  expect_refused([&] { read_header(bytes, Side::kServer, Phase::kOpen); }, "reserved bytes",
                 ErrorCode::kCorrupt);
}

// F20
TEST(Frame, WhatIsNoFrameIsNamed) {
  const std::pair<std::string_view, std::string> kCases[] = {
      {"GET /metrics HTTP/1.1\r\n", "an HTTP request"},
      {"POST / HTTP/1.0\r\n", "an HTTP request"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n", "an HTTP request"},
      {"HTTP/1.1 400 Bad Request", "an HTTP answer"},
      {"SSH-2.0-OpenSSH_9.2p1", "SSH"},
      {std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), "TLS"},
      {"HPF2aaaabbbbccccddddeeee", "frames 'HPF2'"},
      {std::string_view("\0\0\0\0\0\0\0\0", 8), "something else"},
      {"\xff\xff\xff\xff\xff\xff", "something else"},
  };
  for (const auto& [text, name] : kCases) {
    EXPECT_EQ(looks_like(text_header(text)), name);
    expect_refused([&] { read_header(text_header(text), Side::kServer, Phase::kLogin); },
                   "hopfeed's protocol 5 (frames 'HPF1') is spoken here, and what came is " + name,
                   ErrorCode::kCorrupt);
  }
}

// F19: lengths that nobody can mean.
TEST(Frame, LengthsAboveTheLimitAreRefused) {
  for_each_type([&](FrameType type) {
    const Side side = takes(type, Side::kClient, Phase::kOpen) || takes(type, Side::kClient, Phase::kLogin)
                          ? Side::kClient
                          : Side::kServer;
    const Phase phase = takes(type, side, Phase::kOpen) ? Phase::kOpen : Phase::kLogin;
    const std::uint64_t most = max_payload(type);
    EXPECT_EQ(read_header(header_of({.type = type, .bytes = most}), side, phase).bytes, most);
    for (const std::uint64_t bytes :
         {most + 1, std::uint64_t{1} << 62, std::uint64_t{1} << 63, ~std::uint64_t{0}})
      expect_refused([&] { read_header(header_of({.type = type, .bytes = bytes}), side, phase); },
                     std::to_string(bytes) + " bytes, and at most");
  });
}

TEST(Frame, ABlockHasRoomForItself) {
  const std::uint64_t others = kBlockHeadBytes + kChecksumBytes;
  EXPECT_EQ(block_bytes({.type = FrameType::kBlock, .bytes = others + 1}, Sums::kBlocks), 1u);
  EXPECT_EQ(block_bytes({.type = FrameType::kBlock, .bytes = others + 1}, Sums::kFrames),
            1u + kChecksumBytes);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, others - 1, others})
    expect_refused([&] { block_bytes({.type = FrameType::kBlock, .bytes = bytes}, Sums::kBlocks); },
                   "no room for a block", ErrorCode::kCorrupt);
}

TEST(Crc32c, IsCastagnolisInAnyNumberOfParts) {
  const Bytes nine = to_bytes(std::string_view("123456789"));
  EXPECT_EQ(crc32c(0, nine), 0xE3069283u);
  EXPECT_EQ(crc32c(crc32c(0, std::span(nine).first(4)), std::span(nine).subspan(4)), 0xE3069283u);
  EXPECT_EQ(crc32c(0, {}), 0u);
  EXPECT_EQ(crc32c(0, Bytes(32)), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(0, Bytes(32, std::byte{0xFF})), 0x62A8AB43u);
}

}  // namespace
}  // namespace hopfeed::wire
