// See messages.h: the messages that are bytes. Those that are JSON are in messages_json.cc.
#include "wire/messages.h"

#include <fmt/format.h>

#include "core/base/limits.h"
#include "core/base/plain_text.h"
#include "wire/byte_codec.h"

namespace hopfeed::wire {
namespace {

/// The codes of errors on the wire, which stay what they are whatever happens to the enum.
constexpr ErrorCode kCodes[] = {ErrorCode::kInvalid,   ErrorCode::kNotFound, ErrorCode::kCorrupt,
                                ErrorCode::kVersion,   ErrorCode::kIo,       ErrorCode::kNoSpace,
                                ErrorCode::kTimeout,   ErrorCode::kPeerDied, ErrorCode::kUnsupported,
                                ErrorCode::kStateLost, ErrorCode::kBusy};

std::uint16_t number_of(ErrorCode code) {
  for (std::size_t i = 0; i < std::size(kCodes); ++i)
    if (kCodes[i] == code) return static_cast<std::uint16_t>(i + 1);
  return 1;
}

}  // namespace

std::uint64_t block_bytes(const FrameHeader& header, Sums sums) {
  const std::uint64_t others = kBlockHeadBytes + (sums == Sums::kBlocks ? kChecksumBytes : 0);
  if (header.bytes <= others)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("a BLOCK frame of {} bytes has no room for a block", header.bytes));
  return header.bytes - others;
}

// ---- login

Bytes to_bytes(const Hello& message) {
  const std::string name = as_line(message.name, kMaxClientName);
  ByteWriter out(4 + kNonceBytes + name.size());
  out.number(message.min_version);
  out.number(message.max_version);
  out.raw(message.nonce);
  out.text(name);
  return out.take();
}

template <>
Hello from_bytes<Hello>(std::span<const std::byte> payload) {
  ByteReader in(payload, "HELLO");
  Hello message;
  message.min_version = in.number<std::uint16_t>("lowest version");
  message.max_version = in.number<std::uint16_t>("highest version");
  if (message.min_version == 0 || message.min_version > message.max_version)
    in.fail(ErrorCode::kCorrupt,
            fmt::format("its versions are {} to {}", message.min_version, message.max_version));
  message.nonce = in.array<kNonceBytes>("nonce");
  message.name = in.line("name", kMaxClientName);
  return message;
}

Bytes to_bytes(const Challenge& message) {
  ByteWriter out(4 + kNonceBytes);
  out.number(message.version);
  out.number(static_cast<std::uint8_t>(message.wants_token));
  out.number(std::uint8_t{0});
  out.raw(message.nonce);
  return out.take();
}

template <>
Challenge from_bytes<Challenge>(std::span<const std::byte> payload) {
  ByteReader in(payload, "CHALLENGE");
  Challenge message;
  message.version = in.number<std::uint16_t>("version");
  message.wants_token = in.flag("flag for a token");
  in.zeros(1);
  message.nonce = in.array<kNonceBytes>("nonce");
  in.end();
  return message;
}

Bytes to_bytes(const Login& message) { return {message.proof.begin(), message.proof.end()}; }

template <>
Login from_bytes<Login>(std::span<const std::byte> payload) {
  ByteReader in(payload, "LOGIN");
  const Login message{.proof = in.array<kProofBytes>("proof")};
  in.end();
  return message;
}

// ---- refusals

Bytes to_bytes(const Refusal& message) {
  const std::string text = as_line(message.text, kMaxSmallBytes - 4);
  ByteWriter out(4 + text.size());
  out.number(number_of(message.code));
  out.number(std::uint16_t{0});
  out.text(text);
  return out.take();
}

template <>
Refusal from_bytes<Refusal>(std::span<const std::byte> payload) {
  ByteReader in(payload, "REFUSED or FAILED");
  const auto code = in.number<std::uint16_t>("code");
  if (code == 0 || code > std::size(kCodes))
    in.fail(ErrorCode::kCorrupt, fmt::format("its code is {}", code));
  in.zeros(2);
  return {.code = kCodes[code - 1], .text = in.line("text", kMaxSmallBytes)};
}

// ---- batches

Bytes to_bytes(const BatchAsked& message) {
  ByteWriter out(kBatchAskedBytes);
  out.number(message.job);
  out.number(message.held.millionths);
  out.number(message.epoch);
  out.number(message.first);
  out.number(message.count);
  out.number(message.granted);
  return out.take();
}

template <>
BatchAsked from_bytes<BatchAsked>(std::span<const std::byte> payload) {
  ByteReader in(payload, "BATCH");
  BatchAsked message;
  message.job = in.number<std::uint32_t>("job");
  message.held.millionths = in.number<std::uint32_t>("share of held rows");
  message.epoch = in.count("epoch");
  message.first = in.count("first position");
  message.count = in.count("count");
  message.granted = in.number<std::uint64_t>("granted bytes");
  in.end();
  if (message.count == 0 || message.count > kMaxBatchSize)
    in.fail(ErrorCode::kInvalid,
            fmt::format("it asks for {} seeds, and a batch has 1 to {}", message.count, kMaxBatchSize));
  if (message.held.millionths > HeldShare::kAll)
    in.fail(ErrorCode::kInvalid, fmt::format("it holds {} millionths of the rows", message.held.millionths));
  if (message.granted > kMaxBlockBytes)
    in.fail(ErrorCode::kInvalid,
            fmt::format("it grants {} bytes, and a block has at most {}", message.granted, kMaxBlockBytes));
  return message;
}

Bytes to_bytes(const BlockHead& message) {
  ByteWriter out(kBlockHeadBytes);
  out.number(message.worker);
  out.number(std::uint32_t{0});
  out.number(message.sampling);
  out.number(message.gathering);
  return out.take();
}

template <>
BlockHead from_bytes<BlockHead>(std::span<const std::byte> payload) {
  ByteReader in(payload, "BLOCK");
  BlockHead message;
  message.worker = in.number<std::uint32_t>("worker");
  in.zeros(4);
  message.sampling = in.count("time of sampling");
  message.gathering = in.count("time of gathering");
  in.end();
  return message;
}

Bytes to_bytes(std::uint64_t number) {
  ByteWriter out(sizeof number);
  out.number(number);
  return out.take();
}

template <>
std::uint64_t from_bytes<std::uint64_t>(std::span<const std::byte> payload) {
  ByteReader in(payload, "SIZE, GRANT or CLOSE_JOB");
  const auto number = in.number<std::uint64_t>("number");
  in.end();
  return number;
}

Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <>
std::string from_bytes<std::string>(std::span<const std::byte> payload) {
  return ByteReader(payload, "GET_META, META or STATUS").lines("text", kMaxMetaBytes);
}

}  // namespace hopfeed::wire
