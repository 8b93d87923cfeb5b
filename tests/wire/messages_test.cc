// Messages: what is written is read, what is damaged is refused by name, and each has the bytes of its golden
// file.
#include "wire/messages.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/plain_text.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/wire/sample_messages.h"
#include "wire/frame_queue.h"

namespace hopfeed::wire {
namespace {

using testing::SampleFrame;

/// Reads a payload as its type says.
void read_any(FrameType type, const Bytes& payload) { testing::read_payload_of(type, payload); }

Bytes json_bytes(std::string_view text) { return to_bytes(text); }

TEST(Messages, AreReadAsTheyWereWritten) {
  for (const SampleFrame& sample : testing::sample_frames()) {
    SCOPED_TRACE(sample.file);
    EXPECT_NO_THROW(read_any(sample.header.type, sample.payload));
  }
  const auto hello = from_bytes<Hello>(to_bytes(testing::sample_hello()));
  EXPECT_EQ(hello.min_version, 1);
  EXPECT_EQ(hello.nonce, testing::sample_hello().nonce);
  EXPECT_EQ(hello.name, "trainer-3 on gpu7");
  const auto welcome = from_bytes<Welcome>(to_bytes(testing::sample_welcome()));
  EXPECT_EQ(welcome.proof, testing::sample_welcome().proof);
  EXPECT_EQ(welcome.offer.server, testing::sample_welcome().offer.server);
  ASSERT_EQ(welcome.offer.datasets.size(), 2u);
  EXPECT_EQ(welcome.offer.datasets[1].fingerprint, testing::sample_welcome().offer.datasets[1].fingerprint);
  ASSERT_EQ(welcome.offer.samplers.size(), 1u);
  EXPECT_EQ(welcome.offer.samplers[0].name, "spaced");
  const auto open = from_bytes<Open>(to_bytes(testing::sample_open()));
  EXPECT_EQ(open.job, 4'000'000'000u);
  EXPECT_EQ(open.batch_size, 1024);
  EXPECT_TRUE(open.check_finite);
  EXPECT_EQ(open.spec.to_json(), testing::sample_open().spec.to_json());
  const auto asked = from_bytes<BatchAsked>(to_bytes(testing::sample_asked()));
  EXPECT_EQ(asked.first, testing::sample_asked().first);
  EXPECT_EQ(asked.granted, testing::sample_asked().granted);
  EXPECT_EQ(from_bytes<std::uint64_t>(to_bytes(std::uint64_t{1} << 63)), std::uint64_t{1} << 63);
  const auto opened =
      from_bytes<Opened>(to_bytes(Opened{.num_seeds = 196'615, .worst_block = kMaxBlockBytes}));
  EXPECT_EQ(opened.worst_block, kMaxBlockBytes);
}

TEST(Messages, WhatAServerKeepsBesidePartitions_IsSaidOrLeftOut) {
  for (const bool state : {false, true})
    for (const bool results : {false, true}) {
      const auto told = from_bytes<Partitions>(
          to_bytes(Partitions{.count = 2, .here = {1}, .keeps_state = state, .keeps_results = results}));
      EXPECT_EQ(told.keeps_state, state);
      EXPECT_EQ(told.keeps_results, results);
    }
  const auto old =
      from_bytes<Partitions>(json_bytes(R"({"count":2,"manifest":"0123456789abcdef","here":[1]})"));
  EXPECT_FALSE(old.keeps_state || old.keeps_results);
}

TEST(Messages, MarksOfARefusalArrive) {
  const Refusal refusal{.text = "lower " + marked("batch_size")};
  EXPECT_EQ(from_bytes<Refusal>(to_bytes(refusal)).text, refusal.text);
}

TEST(Messages, EveryCodeOfARefusalArrives) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kUnsupported); ++code) {
    const Refusal refusal{.code = static_cast<ErrorCode>(code), .text = "why"};
    EXPECT_EQ(from_bytes<Refusal>(to_bytes(refusal)).code, refusal.code);
  }
}

std::filesystem::path golden_folder(int version) {
  const std::filesystem::path folder =
      std::filesystem::path(std::getenv("HOPFEED_SOURCE")) / "tests/wire/data";
  return version == 1 ? folder : folder / "version2";
}

TEST(Messages, GoldenFramesKeepTheirBytes) {
  for (const int version : {1, 2}) {
    const std::filesystem::path folder = golden_folder(version);
    for (const SampleFrame& sample : testing::sample_frames()) {
      const std::string bytes = version == 1 ? testing::frame_text(sample) : testing::frame_text_2(sample);
      const std::filesystem::path file = folder / sample.file;
      if (testing::stores_golden()) testing::write_bytes(file, bytes);
      EXPECT_TRUE(bytes == testing::file_bytes(file))
          << file
          << " has other bytes now; if that was meant, raise kProtocolVersion, change docs/protocol.md, and "
             "run this test "
             "with HOPFEED_STORE_GOLDEN=1";
    }
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      files += entry.path().extension() == ".frame";
    EXPECT_EQ(files, testing::sample_frames().size());
  }
}

/// What a queue gives to the socket.
std::string sent_by(FrameQueue& queue) {
  std::string bytes;
  std::vector<Done> left;
  while (!queue.empty()) {
    std::size_t given = 0;
    for (const boost::asio::const_buffer& part : queue.next()) {
      bytes.append(static_cast<const char*>(part.data()), part.size());
      given += part.size();
    }
    queue.sent(given, left);
  }
  return bytes;
}

TEST(Messages, FramesAreSentAsTheirGolden) {
  for (const auto& [version, sums] : {std::pair{1, Sums::kBlocks}, std::pair{2, Sums::kFrames}}) {
    for (const SampleFrame& sample : testing::sample_frames()) {
      const FrameType type = sample.header.type;
      if (type < FrameType::kRefused) continue;  // of login
      FrameQueue queue;
      queue.set_sums(sums);
      const std::span<const std::byte> payload(sample.payload);
      if (type == FrameType::kBlock) {
        const std::size_t block = payload.size() - kBlockHeadBytes - kChecksumBytes;
        queue.add_block(sample.header.request, from_bytes<BlockHead>(payload.first(kBlockHeadBytes)),
                        payload.subspan(kBlockHeadBytes, block), nullptr);
      } else {
        queue.add(type, sample.header.request, payload);
      }
      EXPECT_TRUE(sent_by(queue) == testing::file_bytes(golden_folder(version) / sample.file))
          << sample.file << " in version " << version;
    }
  }
}

// With its header, its bytes in place and their checksum, each takes three buffers of a system call at most.
TEST(Messages, QuestionsThatWaitTogether_AreGivenToOneSystemCall) {
  FrameQueue queue;
  queue.set_sums(Sums::kFrames);
  for (std::uint64_t number = 0; number < 16; ++number) {
    const auto question = std::make_shared<const Bytes>(1'000 + 1'000 * number);
    queue.add(FrameType::kAsk, number, *question, question);
  }
  std::size_t given = 0;
  for (const boost::asio::const_buffer& part : queue.next()) given += part.size();
  EXPECT_EQ(given, queue.bytes());
}

// F19
TEST(Messages, WhatIsTooShortOrTooLongIsRefused) {
  for (const SampleFrame& sample : testing::sample_frames()) {
    if (sample.header.type == FrameType::kBlock || sample.header.type == FrameType::kSeeds ||
        sample.header.type == FrameType::kIds || sample.header.type == FrameType::kRows ||
        !is_summed(sample.header.type) || sample.header.type == FrameType::kPing ||
        sample.header.type == FrameType::kPong)
      continue;  // bytes that mean nothing here
    SCOPED_TRACE(sample.file);
    const std::size_t size = sample.payload.size();
    // What ends in a text may be shorter by some of it.
    const std::size_t text = sample.text_at;
    for (std::size_t cut = 0; cut < std::min(size, text); ++cut) {
      const Bytes part(sample.payload.begin(), sample.payload.begin() + static_cast<std::ptrdiff_t>(cut));
      EXPECT_THROW(read_any(sample.header.type, part), Error) << cut;
    }
    Bytes longer = sample.payload;
    longer.push_back(std::byte{0});
    EXPECT_THROW(read_any(sample.header.type, longer), Error);
  }
}

// F19
TEST(Messages, FieldsThatNobodyCanMeanAreRefused) {
  const auto asked = [](auto change) {
    BatchAsked message = testing::sample_asked();
    change(message);
    return to_bytes(message);
  };
  const auto refuse = [](const Bytes& bytes, const char* part, ErrorCode code = ErrorCode::kInvalid) {
    expect_refused([&] { from_bytes<BatchAsked>(bytes); }, part, code);
  };
  refuse(asked([](BatchAsked& m) { m.epoch = -1; }), "its epoch is -1");
  refuse(asked([](BatchAsked& m) { m.first = INT64_MIN; }), "its first position is");
  refuse(asked([](BatchAsked& m) { m.count = 0; }), "it asks for 0 seeds");
  refuse(asked([](BatchAsked& m) { m.count = -5; }), "its count is -5");
  refuse(asked([](BatchAsked& m) { m.count = INT64_MAX; }), "it asks for");
  refuse(asked([](BatchAsked& m) { m.granted = ~std::uint64_t{0}; }), "it grants");
  refuse(asked([](BatchAsked& m) { m.held.millionths = 1'000'001; }), "it holds 1000001 millionths");

  Hello hello = testing::sample_hello();
  hello.min_version = 0;
  expect_refused([&] { from_bytes<Hello>(to_bytes(hello)); }, "versions", ErrorCode::kCorrupt);
  hello.min_version = 3, hello.max_version = 2;
  expect_refused([&] { from_bytes<Hello>(to_bytes(hello)); }, "versions", ErrorCode::kCorrupt);
  Bytes challenge = to_bytes(Challenge{.wants_token = true});
  challenge[2] = std::byte{2};
  expect_refused([&] { from_bytes<Challenge>(challenge); }, "neither 0 nor 1", ErrorCode::kCorrupt);
  Bytes head = to_bytes(BlockHead{.worker = 1, .sampling = -1});
  expect_refused([&] { from_bytes<BlockHead>(head); }, "time of sampling");
  Bytes refusal = to_bytes(Refusal{.text = "x"});
  refusal[0] = std::byte{99};
  expect_refused([&] { from_bytes<Refusal>(refusal); }, "its code is 99", ErrorCode::kCorrupt);
}

TEST(Messages, TextsAreUtf8WithoutControlCharactersAndDirectionMarks) {
  for (const std::string bad :
       {"a\nb", "\x1b[31m", "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82",
        "\xc2\x9b"
        "5m",
        "\x7f", "\xe2\x80\xaetxt.exe", "\xe2\x81\xa6", "\xd8\x9c", "\xe2\x80\xa8"}) {
    Bytes hello = to_bytes(Hello{});
    for (const char c : bad) hello.push_back(static_cast<std::byte>(c));
    expect_refused([&] { from_bytes<Hello>(hello); }, "control characters", ErrorCode::kCorrupt);
    EXPECT_FALSE(is_text(bad, Lines::kOne));
    EXPECT_TRUE(is_text(as_line(bad, 64), Lines::kOne)) << as_line(bad, 64);
  }
  EXPECT_EQ(as_line("zwei\nZeilen\x1b", 64), "zwei Zeilen?");
  EXPECT_EQ(as_line("f\xc3\xbcr", 2), "f");  // no half of a character
  EXPECT_TRUE(is_text("\xe2\x82\xac \xf0\x9f\x99\x82", Lines::kOne));
  EXPECT_TRUE(
      is_text("\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xd8\xa7\xe2\x80\xa6", Lines::kOne));  // letters of both
  EXPECT_EQ(from_bytes<std::string>(to_bytes(std::string_view("{\n\t\"a\": 1}\n"))), "{\n\t\"a\": 1}\n");
  // What a server says is one line, whatever its library said.
  EXPECT_EQ(from_bytes<Refusal>(to_bytes(Refusal{.text = "two\nlines\x07"})).text, "two lines?");
}

TEST(Messages, JobsAreReadStrictly) {
  const std::string spec = testing::sample_open().spec.to_json();
  const auto refuse = [&](const std::string& text, const std::string& part,
                          ErrorCode code = ErrorCode::kInvalid) {
    expect_refused([&] { from_bytes<Open>(json_bytes(text)); }, part, code);
  };
  const std::string head = R"({"job":1,"batch_size":8,"check_finite":false,"held":0)";
  EXPECT_NO_THROW(from_bytes<Open>(json_bytes(head + ",\"spec\":" + spec + "}")));
  refuse("", "no JSON", ErrorCode::kCorrupt);
  refuse("[]", "no JSON object", ErrorCode::kCorrupt);
  refuse(head, "no JSON", ErrorCode::kCorrupt);
  refuse(head + "}", "lacks the key 'spec'");
  refuse(head + ",\"spec\":" + spec + ",\"path\":\"/etc\"}", "unknown key 'path'");
  refuse(head + ",\"job\":2,\"spec\":" + spec + "}", "'job' twice", ErrorCode::kCorrupt);
  refuse(head + ",\"spec\":{}}", "batch spec", ErrorCode::kVersion);
  refuse(head + ",\"spec\":7}", "batch spec");
  for (const char* bad :
       {R"({"job":-1,"batch_size":8)", R"({"job":4294967296,"batch_size":8)", R"({"job":1.5,"batch_size":8)",
        R"({"job":"1","batch_size":8)", R"({"job":18446744073709551615,"batch_size":8)"})
    refuse(std::string(bad) + R"(,"check_finite":false,"held":0,"spec":)" + spec + "}",
           ", and may be a whole number from 0 to 4294967295");
  for (const char* size : {"0", "-1", "16777217", "1e3", "9223372036854775808"})
    refuse(std::string(R"({"job":1,"batch_size":)") + size + R"(,"check_finite":false,"held":0,"spec":)" +
               spec + "}",
           ", and may be a whole number from 1 to 16777216");
  refuse(R"({"job":1,"batch_size":8,"check_finite":0,"held":0,"spec":)" + spec + "}",
         "'check_finite' has no value");
  for (const char* held : {"-1", "1000001", "0.5"})
    refuse(std::string(R"({"job":1,"batch_size":8,"check_finite":false,"held":)") + held + R"(,"spec":)" +
               spec + "}",
           ", and may be a whole number from 0 to 1000000");
}

TEST(Messages, OrdersOfHeldRowsAreHexDigits) {
  const auto opened = [](const std::string& order) {
    return json_bytes(R"({"num_seeds":1,"worst_block":64,"held_order":")" + order + "\"}");
  };
  EXPECT_EQ(from_bytes<Opened>(opened("00000000000000ff")).held_order, 255U);
  for (const char* order : {"", "ff", "00000000000000FG", "0x000000000000ff", "00000000000000ff0"})
    expect_refused([&] { from_bytes<Opened>(opened(order)); }, "'held_order' has no value");
}

TEST(Messages, OffersMayGrowAndQuestionsMayNot) {
  const std::string offer =
      R"({"software":"s","server":"t","rules":1,"checksums":true,"draining":false,"datasets":[{"name":"d",)"
      R"("fingerprint":"f","size":3}],"samplers":[],"later":{}})";
  Bytes welcome(kProofBytes);
  const Bytes json = json_bytes(offer);
  welcome.insert(welcome.end(), json.begin(), json.end());
  EXPECT_EQ(from_bytes<Welcome>(welcome).offer.datasets.at(0).name, "d");
  expect_refused(
      [] {
        from_bytes<GetClusters>(
            json_bytes(R"({"fingerprint":"f","node_type":"n","attr":"a","file":"/etc/passwd"})"));
      },
      "unknown key 'file'");
  expect_refused([] { from_bytes<GetClusters>(json_bytes(R"({"fingerprint":"f","node_type":"n"})")); },
                 "lacks the key 'attr'");
  expect_refused([] { from_bytes<Opened>(json_bytes(R"({"num_seeds":-1,"worst_block":0})")); },
                 "'num_seeds'");
}

}  // namespace
}  // namespace hopfeed::wire
