// Each limit of the wire (core/base/limits.h) holds: what is one above it is refused, what is at it is not.
// Those of a frame's length are in frame_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/limits.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"
#include "wire/address.h"
#include "wire/messages.h"
#include "wire/security.h"

namespace hopfeed::wire {
namespace {

TEST(FrameLimits, AreThoseOfTheHeaderFile) {
  EXPECT_EQ(max_payload(FrameType::kHello), 4 + kNonceBytes + kMaxClientName);
  EXPECT_EQ(max_payload(FrameType::kWelcome), kProofBytes + kMaxOfferBytes);
  EXPECT_EQ(max_payload(FrameType::kRefused), kMaxSmallBytes);
  EXPECT_EQ(max_payload(FrameType::kMeta), kMaxMetaBytes);
  EXPECT_EQ(max_payload(FrameType::kOpen), kMaxOpenBytes);
  EXPECT_EQ(max_payload(FrameType::kSeeds), kMaxSeedsBytes);
  EXPECT_EQ(max_payload(FrameType::kIds), kMaxSeedsBytes);
  EXPECT_EQ(max_payload(FrameType::kBatch), kBatchAskedBytes);
  EXPECT_EQ(max_payload(FrameType::kBlock), kBlockHeadBytes + kMaxBlockBytes + kChecksumBytes);
  EXPECT_EQ(max_payload(FrameType::kPing), kMaxPingBytes);
  EXPECT_EQ(max_payload(FrameType::kStatus), kMaxStatusBytes);
  EXPECT_EQ(max_payload(FrameType::kCancel), 0u);
}

// F19: all that somebody may send who has not logged in.
TEST(FrameLimits, LoginFitsIntoFourKilobytes) {
  EXPECT_LE(2 * kFrameHeaderBytes + max_payload(FrameType::kHello) + max_payload(FrameType::kLogin),
            kMaxLoginBytes);
  EXPECT_EQ(kMaxLoginBytes, 4u << 10);
}

TEST(FrameLimits, NamesOfClients) {
  Bytes hello = to_bytes(Hello{.name = std::string(kMaxClientName, 'n')});
  EXPECT_EQ(from_bytes<Hello>(hello).name.size(), kMaxClientName);
  hello.push_back(std::byte{'n'});
  expect_refused([&] { from_bytes<Hello>(hello); }, "its name has");
  // Who sends cuts it off.
  EXPECT_EQ(from_bytes<Hello>(to_bytes(Hello{.name = std::string(kMaxClientName + 1, 'n')})).name.size(),
            kMaxClientName);
}

TEST(FrameLimits, TextsOfRefusals) {
  Bytes refusal = to_bytes(Refusal{.text = std::string(kMaxSmallBytes + 1, 't')});
  EXPECT_EQ(refusal.size(), kMaxSmallBytes);
  EXPECT_EQ(from_bytes<Refusal>(refusal).text.size(), kMaxSmallBytes - 4);
}

TEST(FrameLimits, SeedsAndBytesThatAreAskedFor) {
  const BatchAsked most{.count = kMaxBatchSize, .granted = kMaxBlockBytes};
  EXPECT_EQ(from_bytes<BatchAsked>(to_bytes(most)).count, kMaxBatchSize);
  expect_refused([&] { from_bytes<BatchAsked>(to_bytes(BatchAsked{.count = kMaxBatchSize + 1})); },
                 "asks for");
  expect_refused(
      [&] { from_bytes<BatchAsked>(to_bytes(BatchAsked{.count = 1, .granted = kMaxBlockBytes + 1})); },
      "grants");
}

TEST(FrameLimits, DepthOfJson) {
  const auto offer = [](std::size_t depth) {
    Bytes bytes(kProofBytes);
    const std::string text =
        R"({"software":"","server":"","rules":1,"checksums":true,"draining":false,"datasets":[],)"
        R"("samplers":[],"new":)" +
        std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
    const Bytes json = to_bytes(std::string_view(text));
    bytes.insert(bytes.end(), json.begin(), json.end());
    return bytes;
  };
  EXPECT_NO_THROW(from_bytes<Welcome>(offer(kMaxJsonDepth)));
  expect_refused([&] { from_bytes<Welcome>(offer(kMaxJsonDepth + 1)); }, "nests too deep");
  // Far more than what a recursion would bear.
  const std::string deep(kMaxOpenBytes, '[');
  expect_refused([&] { from_bytes<Open>(to_bytes(std::string_view(deep))); }, "nests too deep");
}

TEST(FrameLimits, PathsOfSocketFiles) {
  std::string longest = "unix:";
  longest.append(kMaxSocketPath, 'p');
  EXPECT_NO_THROW(parse_address(longest));
  const std::string longer = longest + "p";
  expect_refused([&] { parse_address(longer); }, "use a shorter one");
}

TEST(FrameLimits, NumberOfServers) {
  std::string list;
  for (std::size_t i = 0; i < kMaxServers; ++i) list += fmt::format("{}h{}:1", i == 0 ? "" : ",", i);
  EXPECT_EQ(parse_addresses(list).size(), kMaxServers);
  expect_refused([&] { parse_addresses(list + ",one.more:1"); }, "more than");
}

TEST(FrameLimits, LengthOfTokens) {
  const testing::TempFolder folder;
  const std::string file = folder.path() / "token";
  const auto read = [&](std::size_t size) {
    std::ofstream(file) << std::string(size, 't') << '\n';
    return read_token(file).size();
  };
  EXPECT_EQ(read(kMinTokenBytes), kMinTokenBytes);
  EXPECT_EQ(read(kMaxTokenBytes), kMaxTokenBytes);
  expect_refused([&] { read(kMinTokenBytes - 1); }, "needs 16 or more");
  expect_refused([&] { read(kMaxTokenBytes + 1); }, "more than 1024");
  expect_refused([&] { read(1 << 20); }, "more than 1024");
}

}  // namespace
}  // namespace hopfeed::wire
