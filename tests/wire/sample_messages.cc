// See sample_messages.h.
#include "tests/wire/sample_messages.h"

#include "wire/checked_bytes.h"

#include <cstddef>

#include "core/base/error.h"
#include "wire/crc32c.h"

namespace hopfeed::testing {
namespace {

using namespace wire;

template <std::size_t size>
std::array<std::byte, size> counting(int from) {
  std::array<std::byte, size> bytes;
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(from + static_cast<int>(i));
  return bytes;
}

Bytes block_payload() {
  const Bytes block = to_bytes(std::string_view("the block, as it lies in the slot"));
  Bytes payload = to_bytes(BlockHead{.worker = 3, .sampling = 1'500'000, .gathering = 250'000});
  payload.insert(payload.end(), block.begin(), block.end());
  const std::uint32_t crc = crc32c(0, block);
  const auto tail = std::as_bytes(std::span(&crc, 1));
  payload.insert(payload.end(), tail.begin(), tail.end());
  return payload;
}

Bytes ids_payload() {
  Bytes payload;
  for (const std::int64_t id : {0, 7, 1'000'000}) {
    const auto bytes = std::as_bytes(std::span(&id, 1));
    payload.insert(payload.end(), bytes.begin(), bytes.end());
  }
  return payload;
}

}  // namespace

Hello sample_hello() {
  return {.min_version = 1, .max_version = 1, .nonce = counting<kNonceBytes>(0), .name = "trainer-3 on gpu7"};
}

Welcome sample_welcome() {
  return {.proof = counting<kProofBytes>(96),
          .offer = {.software = "hopfeed 0.1.0",
                    .server = "feeder-1, process 4711",
                    .rules = 1,
                    .checksums = true,
                    .draining = false,
                    .datasets = {{.name = "products", .fingerprint = std::string(64, 'a')},
                                 {.name = "debian", .fingerprint = std::string(64, 'b')}},
                    .samplers = {{.name = "spaced", .sha256 = std::string(64, 'c')}}}};
}

Open sample_open() {
  return {.job = 4'000'000'000,
          .spec = {.dataset = "products",
                   .fingerprint = std::string(64, 'a'),
                   .batch = {.fanouts = {15, 10, 5}},
                   .seeds = {.node_type = "node", .split = "train"},
                   .seed = 18'446'744'073'709'551'615U},
          .batch_size = 1024,
          .check_finite = true,
          .held = {.millionths = 200'000}};
}

BatchAsked sample_asked() {
  return {.job = 4'000'000'000,
          .epoch = 2,
          .first = 65'536,
          .count = 1024,
          .granted = 1'048'576,
          .held = {.millionths = 200'000}};
}

std::vector<SampleFrame> sample_frames() {
  std::vector<SampleFrame> samples;
  const auto add = [&](const std::string& file, FrameType type, std::uint64_t request, Bytes payload,
                       std::size_t text_at = SIZE_MAX) {
    const FrameHeader header{.type = type, .request = request, .bytes = payload.size()};
    samples.push_back(
        {.file = file + ".frame", .header = header, .payload = std::move(payload), .text_at = text_at});
  };
  const Refusal refusal{.code = ErrorCode::kVersion, .text = "use one version on both sides"};
  add("hello", FrameType::kHello, 0, to_bytes(sample_hello()), 4 + kNonceBytes);
  add("challenge", FrameType::kChallenge, 0,
      to_bytes(Challenge{.version = 1, .wants_token = true, .nonce = counting<kNonceBytes>(32)}));
  add("login", FrameType::kLogin, 0, to_bytes(Login{.proof = counting<kProofBytes>(64)}));
  add("welcome", FrameType::kWelcome, 0, to_bytes(sample_welcome()));
  add("refused", FrameType::kRefused, 9, to_bytes(refusal), 4);
  add("get_meta", FrameType::kGetMeta, 1, to_bytes(std::string_view("products")), 0);
  add("meta", FrameType::kMeta, 1, to_bytes(std::string_view("{\"name\": \"products\"}\n")), 0);
  add("open", FrameType::kOpen, 2, to_bytes(sample_open()));
  add("opened", FrameType::kOpened, 2,
      to_bytes(Opened{.num_seeds = 196'615, .worst_block = 171'000'000, .held_order = 0x0123456789abcdef}));
  add("unknown_seeds", FrameType::kUnknownSeeds, 2, {});
  add("seeds", FrameType::kSeeds, 3, to_bytes(std::string_view("what BatchSource::pack() gave")), 0);
  add("seeds_kept", FrameType::kSeedsKept, 3, {});
  add("get_clusters", FrameType::kGetClusters, 4,
      to_bytes(GetClusters{.fingerprint = std::string(64, 'a'), .node_type = "node", .attr = "cluster"}));
  add("ids", FrameType::kIds, 4, ids_payload(), 0);
  add("close_job", FrameType::kCloseJob, 0, to_bytes(std::uint64_t{4'000'000'000}));
  add("batch", FrameType::kBatch, 77, to_bytes(sample_asked()));
  add("size", FrameType::kSize, 77, to_bytes(std::uint64_t{2'000'000}));
  add("grant", FrameType::kGrant, 77, to_bytes(std::uint64_t{2'097'152}));
  add("block", FrameType::kBlock, 77, block_payload(), 0);
  add("failed", FrameType::kFailed, 77, to_bytes(refusal), 4);
  add("cancel", FrameType::kCancel, 77, {});
  add("dropped", FrameType::kDropped, 77, {});
  add("ping", FrameType::kPing, 5, to_bytes(std::string_view("are you there?")), 0);
  add("pong", FrameType::kPong, 5, to_bytes(std::string_view("are you there?")), 0);
  add("draining", FrameType::kDraining, 0, {});
  add("get_status", FrameType::kGetStatus, 6, {});
  add("status", FrameType::kStatus, 6, to_bytes(std::string_view("{\"workers\":[]}")), 0);
  add("get_rows", FrameType::kGetRows, 7,
      to_bytes(GetRows{.fingerprint = std::string(64, 'a'),
                       .node_type = "node",
                       .attr = "x",
                       .first = 4'096,
                       .count = 1'024}));
  add("rows", FrameType::kRows, 7, to_bytes(std::string_view("rows of features")), 0);
  add("get_partitions", FrameType::kGetPartitions, 8, to_bytes(std::string_view(std::string(32, 'f'))), 0);
  add("partitions", FrameType::kPartitions, 8,
      to_bytes(Partitions{.count = 4, .manifest = 0x0123456789abcdef, .here = {0, 2}, .keeps_state = true}));
  Bytes question = to_bytes(std::string_view("a question, as peer_questions.h has it. "));
  add_checksum(question, 9);
  add("ask", FrameType::kAsk, 9, question, 0);
  add("answer", FrameType::kAnswer, 9, question, 0);
  add("state", FrameType::kState, 9, question, 0);
  add("state_answer", FrameType::kStateAnswer, 9, question, 0);
  add("results", FrameType::kResults, 9, question, 0);
  add("results_answer", FrameType::kResultsAnswer, 9, question, 0);
  return samples;
}

std::string frame_text(const SampleFrame& sample) {
  std::array<std::byte, kFrameHeaderBytes> header;
  write_header(sample.header, header);
  std::string text(reinterpret_cast<const char*>(header.data()), header.size());
  return text.append(reinterpret_cast<const char*>(sample.payload.data()), sample.payload.size());
}

std::string frame_text_2(SampleFrame sample) {
  const FrameType type = sample.header.type;
  if (type == FrameType::kHello) {
    Hello hello = sample_hello();
    hello.max_version = 2;
    sample.payload = to_bytes(hello);
  }
  if (type == FrameType::kChallenge) sample.payload.at(0) = std::byte{2};
  if (type == FrameType::kBlock) sample.payload.resize(sample.payload.size() - kChecksumBytes);
  sample.header.bytes = sample.payload.size();
  std::string text = frame_text(sample);
  const bool of_login = type < FrameType::kRefused;
  if (of_login || !is_summed(type)) return text;
  const std::uint32_t crc = crc32c(0, std::as_bytes(std::span(text)));
  return text.append(reinterpret_cast<const char*>(&crc), sizeof crc);
}

void read_payload_of(FrameType type, const Bytes& payload) {
  switch (type) {
    case FrameType::kHello:
      from_bytes<Hello>(payload);
      break;
    case FrameType::kChallenge:
      from_bytes<Challenge>(payload);
      break;
    case FrameType::kLogin:
      from_bytes<Login>(payload);
      break;
    case FrameType::kWelcome:
      from_bytes<Welcome>(payload);
      break;
    case FrameType::kRefused:
    case FrameType::kFailed:
      from_bytes<Refusal>(payload);
      break;
    case FrameType::kOpen:
      from_bytes<Open>(payload);
      break;
    case FrameType::kOpened:
      from_bytes<Opened>(payload);
      break;
    case FrameType::kGetClusters:
      from_bytes<GetClusters>(payload);
      break;
    case FrameType::kGetRows:
      from_bytes<GetRows>(payload);
      break;
    case FrameType::kBatch:
      from_bytes<BatchAsked>(payload);
      break;
    case FrameType::kSize:
    case FrameType::kGrant:
    case FrameType::kCloseJob:
      from_bytes<std::uint64_t>(payload);
      break;
    case FrameType::kPartitions:
      from_bytes<Partitions>(payload);
      break;
    case FrameType::kGetMeta:
    case FrameType::kMeta:
    case FrameType::kGetPartitions:
    case FrameType::kStatus:
      from_bytes<std::string>(payload);
      break;
    case FrameType::kUnknownSeeds:
    case FrameType::kSeedsKept:
    case FrameType::kCancel:
    case FrameType::kDropped:
    case FrameType::kDraining:
    case FrameType::kGetStatus:
      if (!payload.empty()) throw Error(ErrorCode::kCorrupt, "the frame has no payload");
      break;
    case FrameType::kBlock:
      if (payload.size() >= kBlockHeadBytes) from_bytes<BlockHead>(std::span(payload).first(kBlockHeadBytes));
      break;
    case FrameType::kSeeds:
    case FrameType::kIds:
    case FrameType::kRows:
    case FrameType::kAsk:
    case FrameType::kAnswer:
    case FrameType::kState:
    case FrameType::kStateAnswer:
    case FrameType::kResults:
    case FrameType::kResultsAnswer:
    case FrameType::kPing:
    case FrameType::kPong:
      break;
  }
}

}  // namespace hopfeed::testing
