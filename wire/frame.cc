// See frame.h.
#include "wire/frame.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/plain_text.h"
#include "wire/checked_bytes.h"

namespace hopfeed::wire {
namespace {

struct TypeRule {
  FrameType type;
  std::string_view name;
  bool from_client, from_server;
  Phase phase;
  std::uint64_t max_payload;
  bool any_phase = false;
};

constexpr std::uint64_t kMaxHello = 4 + kNonceBytes + kMaxClientName;
constexpr bool C = true, S = true, no = false;

constexpr TypeRule kTypes[] = {
    {FrameType::kHello, "HELLO", C, no, Phase::kLogin, kMaxHello},
    {FrameType::kChallenge, "CHALLENGE", no, S, Phase::kLogin, 4 + kNonceBytes},
    {FrameType::kLogin, "LOGIN", C, no, Phase::kLogin, kProofBytes},
    {FrameType::kWelcome, "WELCOME", no, S, Phase::kLogin, kProofBytes + kMaxOfferBytes},
    {FrameType::kRefused, "REFUSED", no, S, Phase::kOpen, kMaxSmallBytes, true},
    {FrameType::kGetMeta, "GET_META", C, no, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kMeta, "META", no, S, Phase::kOpen, kMaxMetaBytes},
    {FrameType::kOpen, "OPEN", C, no, Phase::kOpen, kMaxOpenBytes},
    {FrameType::kOpened, "OPENED", no, S, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kUnknownSeeds, "UNKNOWN_SEEDS", no, S, Phase::kOpen, 0},
    {FrameType::kSeeds, "SEEDS", C, no, Phase::kOpen, kMaxSeedsBytes},
    {FrameType::kSeedsKept, "SEEDS_KEPT", no, S, Phase::kOpen, 0},
    {FrameType::kGetClusters, "GET_CLUSTERS", C, no, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kIds, "IDS", no, S, Phase::kOpen, kMaxSeedsBytes},
    {FrameType::kCloseJob, "CLOSE_JOB", C, no, Phase::kOpen, sizeof(std::uint64_t)},
    {FrameType::kBatch, "BATCH", C, no, Phase::kOpen, kBatchAskedBytes},
    {FrameType::kSize, "SIZE", no, S, Phase::kOpen, sizeof(std::uint64_t)},
    {FrameType::kGrant, "GRANT", C, no, Phase::kOpen, sizeof(std::uint64_t)},
    {FrameType::kBlock, "BLOCK", no, S, Phase::kOpen, kBlockHeadBytes + kMaxBlockBytes + kChecksumBytes},
    {FrameType::kFailed, "FAILED", no, S, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kCancel, "CANCEL", C, no, Phase::kOpen, 0},
    {FrameType::kDropped, "DROPPED", no, S, Phase::kOpen, 0},
    {FrameType::kPing, "PING", C, S, Phase::kOpen, kMaxPingBytes},
    {FrameType::kPong, "PONG", C, S, Phase::kOpen, kMaxPingBytes},
    {FrameType::kDraining, "DRAINING", no, S, Phase::kOpen, 0},
    {FrameType::kGetStatus, "GET_STATUS", C, no, Phase::kOpen, 0},
    {FrameType::kStatus, "STATUS", no, S, Phase::kOpen, kMaxStatusBytes},
    {FrameType::kGetRows, "GET_ROWS", C, no, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kRows, "ROWS", no, S, Phase::kOpen, kMaxRowsBytes},
    {FrameType::kGetPartitions, "GET_PARTITIONS", C, no, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kPartitions, "PARTITIONS", no, S, Phase::kOpen, kMaxSmallBytes},
    {FrameType::kAsk, "ASK", C, no, Phase::kOpen, kMaxPeerQuestion + kCheckedTail},
    {FrameType::kAnswer, "ANSWER", no, S, Phase::kOpen, kMaxPeerAnswer + kCheckedTail},
    {FrameType::kState, "STATE", C, no, Phase::kOpen, kMaxStateMessage + kCheckedTail},
    {FrameType::kStateAnswer, "STATE_ANSWER", no, S, Phase::kOpen, kMaxStateMessage + kCheckedTail},
    {FrameType::kResults, "RESULTS", C, no, Phase::kOpen, kMaxPeerQuestion + kCheckedTail},
    {FrameType::kResultsAnswer, "RESULTS_ANSWER", no, S, Phase::kOpen, kMaxPeerAnswer + kCheckedTail},
};

/// By number, since each small frame looks here.
constexpr std::size_t kLastType = static_cast<std::size_t>(FrameType::kResultsAnswer);
constexpr auto kRules = [] {
  std::array<const TypeRule*, kLastType + 1> rules{};
  for (const TypeRule& rule : kTypes) rules[static_cast<std::size_t>(rule.type)] = &rule;
  return rules;
}();

const TypeRule* rule_of(FrameType type) {
  const auto number = static_cast<std::size_t>(type);
  return number <= kLastType ? kRules[number] : nullptr;
}

}  // namespace

std::string_view name_of(FrameType type) {
  const TypeRule* const rule = rule_of(type);
  return rule == nullptr ? std::string_view() : rule->name;
}

bool is_summed(FrameType type) {
  return type != FrameType::kAsk && type != FrameType::kAnswer && type != FrameType::kState &&
         type != FrameType::kStateAnswer && type != FrameType::kResults && type != FrameType::kResultsAnswer;
}

std::uint64_t max_payload(FrameType type) {
  const TypeRule* const rule = rule_of(type);
  return rule == nullptr ? 0 : rule->max_payload;
}

std::string looks_like(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const std::string_view method : {"GET ", "PUT ", "POST ", "HEAD ", "OPTIONS ", "DELETE ", "PRI * "})
    if (text.starts_with(method)) return "an HTTP request";
  if (text.starts_with("HTTP/")) return "an HTTP answer";
  if (text.starts_with("SSH-")) return "SSH";
  // A record of TLS: its type (20 to 23), then version 3.x.
  if (text.size() >= 3 && text[0] >= 0x14 && text[0] <= 0x17 && text[1] == 3 && text[2] <= 4) return "TLS";
  if (text.starts_with("HPF")) return fmt::format("frames '{}'", as_line(text.substr(0, 4), 4));
  return "something else";
}

void write_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> to) {
  const std::uint16_t numbers[2]{static_cast<std::uint16_t>(header.type), 0};
  std::memcpy(to.data(), &kFrameMagic, 4);
  std::memcpy(to.data() + 4, numbers, 4);
  std::memcpy(to.data() + 8, &header.request, 8);
  std::memcpy(to.data() + 16, &header.bytes, 8);
}

FrameHeader read_header(std::span<const std::byte, kFrameHeaderBytes> from, Side receiver, Phase phase) {
  std::uint32_t magic = 0;
  std::uint16_t numbers[2];
  FrameHeader header;
  std::memcpy(&magic, from.data(), 4);
  std::memcpy(numbers, from.data() + 4, 4);
  std::memcpy(&header.request, from.data() + 8, 8);
  std::memcpy(&header.bytes, from.data() + 16, 8);
  if (magic != kFrameMagic)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("hopfeed's protocol {} (frames 'HPF1') is spoken here, and what came is {}",
                            kProtocolVersion, looks_like(from)));
  header.type = static_cast<FrameType>(numbers[0]);
  const TypeRule* const rule = rule_of(header.type);
  if (rule == nullptr)
    throw Error(ErrorCode::kInvalid, fmt::format("a frame is of type {}, which protocol {} does not have",
                                                 numbers[0], kProtocolVersion));
  if (numbers[1] != 0)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("the reserved bytes of {} are {:#x}, and not zero", rule->name, numbers[1]));
  if (!(receiver == Side::kServer ? rule->from_client : rule->from_server))
    throw Error(ErrorCode::kInvalid, fmt::format("{} came, which a {} does not send", rule->name,
                                                 receiver == Side::kServer ? "client" : "server"));
  if (!rule->any_phase && rule->phase != phase)
    throw Error(ErrorCode::kInvalid, fmt::format("{} came {} login", rule->name,
                                                 phase == Phase::kLogin ? "before the end of" : "after"));
  if (header.bytes > rule->max_payload)
    throw Error(ErrorCode::kInvalid, fmt::format("{} has {} bytes, and at most {} are taken", rule->name,
                                                 header.bytes, rule->max_payload));
  return header;
}

}  // namespace hopfeed::wire
