// See messages.h: the messages that are JSON. A server takes no key that it does not know, since each changes
// what is asked for; a client passes over those that a later server adds to its answers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/plain_text.h"
#include "wire/byte_codec.h"
#include "wire/messages.h"

namespace hopfeed::wire {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTextBytes = 256;  // of a name or hash in JSON
constexpr std::int64_t kAny = INT64_MAX;

/// An object of a message, whose complaints name the message.
class MessageFields final : public CheckedJson {
 public:
  MessageFields(const json& object, const char* message) : CheckedJson(object), message_(message) {}
  using CheckedJson::require_object;
  [[noreturn]] void wrong(std::string_view key) const {
    fail(ErrorCode::kInvalid, fmt::format("'{}' has no value that it may have", key));
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("{} cannot be read: {}", message_, what));
  }
  static std::string shown(std::string_view key) { return as_line(key, 64); }

 private:
  [[noreturn]] void complain(const JsonFault& fault) const override {
    if (fault.wanted == JsonWanted::kObject) fail(ErrorCode::kCorrupt, "it is no JSON object");
    if (fault.wanted == JsonWanted::kKnownKey)
      fail(ErrorCode::kInvalid, fmt::format("it has the unknown key '{}'", shown(fault.key)));
    if (!fault.value) fail(ErrorCode::kInvalid, fmt::format("it lacks the key '{}'", fault.key));
    if (fault.wanted != JsonWanted::kWhole) wrong(fault.key);
    fail(ErrorCode::kInvalid, fmt::format("'{}' is {}, and may be a whole number from {} to {}", fault.key,
                                          json_shown(*fault.value), fault.least, fault.most));
  }

  const char* const message_;
};

/// A message that is an object of JSON, read key by key.
class JsonMessage {
 public:
  JsonMessage(const std::string& text, const char* message) : message_(message) {
    const MessageFields in = fields();
    if (json_depth(text) > kMaxJsonDepth) in.fail(ErrorCode::kInvalid, "its JSON nests too deep");
    whole_ = parse_json(text);
    if (whole_.is_discarded())
      in.fail(ErrorCode::kCorrupt,
              fmt::format("it is no JSON: {}", as_line(json_complaint(text), kMaxTextBytes)));
    in.require_object();
    if (const std::string key = repeated_key(text); !key.empty())
      in.fail(ErrorCode::kCorrupt, fmt::format("it has the key '{}' twice", MessageFields::shown(key)));
  }
  void only(const std::vector<std::string_view>& keys) const { fields().only(keys); }
  const json& whole() const { return whole_; }
  const json& at(const char* key) const { return fields().at(key); }
  std::string text(const json& object, const char* key, std::size_t max_bytes) const {
    const MessageFields in(object, message_);
    std::string text = in.text(key);
    if (text.size() > max_bytes || !is_text(text, Lines::kOne)) in.wrong(key);
    return text;
  }
  bool flag(const char* key) const { return fields().flag(key); }
  /// 64 bits as 16 hex digits.
  std::uint64_t hex(const char* key) const {
    const std::string digits = text(whole_, key, 16);
    std::uint64_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (digits.size() != 16 || read.ec != std::errc() || read.ptr != digits.data() + digits.size())
      fields().wrong(key);
    return number;
  }
  /// A whole number from `least` to `most`, written as such.
  std::int64_t number(const char* key, std::int64_t least, std::int64_t most) const {
    return fields().whole(key, least, most);
  }
  const json& list(const char* key) const { return fields().list(key); }

 private:
  MessageFields fields() const { return {whole_, message_}; }

  const char* const message_;
  json whole_;
};

Bytes bytes_of(const json& value) { return to_bytes(std::string_view(json_text(value))); }

JsonMessage read_json(std::span<const std::byte> payload, const char* message, std::size_t max_bytes) {
  return {ByteReader(payload, message).lines("JSON", max_bytes), message};
}

}  // namespace

Bytes to_bytes(const Welcome& message) {
  const Offer& offer = message.offer;
  json datasets = json::array(), samplers = json::array();
  for (const Offer::Dataset& dataset : offer.datasets)
    datasets.push_back({{"name", dataset.name}, {"fingerprint", dataset.fingerprint}});
  for (const Offer::Sampler& sampler : offer.samplers)
    samplers.push_back({{"name", sampler.name}, {"sha256", sampler.sha256}});
  const std::string text = json_text({{"software", offer.software},
                                      {"server", offer.server},
                                      {"rules", offer.rules},
                                      {"checksums", offer.checksums},
                                      {"draining", offer.draining},
                                      {"datasets", std::move(datasets)},
                                      {"samplers", std::move(samplers)}});
  ByteWriter out(kProofBytes + text.size());
  out.raw(message.proof);
  out.text(text);
  return out.take();
}

template <>
Welcome from_bytes<Welcome>(std::span<const std::byte> payload) {
  ByteReader in(payload, "WELCOME");
  Welcome message{.proof = in.array<kProofBytes>("proof"), .offer = {}};
  const JsonMessage told(in.lines("JSON", kMaxOfferBytes), "WELCOME");
  Offer& offer = message.offer;
  offer.software = told.text(told.whole(), "software", kMaxTextBytes);
  offer.server = told.text(told.whole(), "server", kMaxTextBytes);
  offer.rules = static_cast<int>(told.number("rules", 0, INT32_MAX));
  offer.checksums = told.flag("checksums");
  offer.draining = told.flag("draining");
  for (const json& dataset : told.list("datasets"))
    offer.datasets.push_back({.name = told.text(dataset, "name", kMaxTextBytes),
                              .fingerprint = told.text(dataset, "fingerprint", kMaxTextBytes)});
  for (const json& sampler : told.list("samplers"))
    offer.samplers.push_back({.name = told.text(sampler, "name", kMaxTextBytes),
                              .sha256 = told.text(sampler, "sha256", kMaxTextBytes)});
  return message;
}

Bytes to_bytes(const Open& message) {
  return bytes_of({{"job", message.job},
                   {"batch_size", message.batch_size},
                   {"check_finite", message.check_finite},
                   {"held", message.held.millionths},
                   {"spec", parse_json(message.spec.to_json())}});
}

namespace {

/// Its reader quotes what it refuses, whatever that is; over the wire errors are lines of text.
BatchSpec spec_from(const json& spec) {
  try {
    return BatchSpec::from_json(json_text(spec));
  } catch (const Error& error) {
    throw Error(error.code(), as_line(error.message(), kMaxSmallBytes));
  }
}

}  // namespace

template <>
Open from_bytes<Open>(std::span<const std::byte> payload) {
  const JsonMessage asked = read_json(payload, "OPEN", kMaxOpenBytes);
  asked.only({"job", "batch_size", "check_finite", "held", "spec"});
  return {.job = static_cast<std::uint32_t>(asked.number("job", 0, UINT32_MAX)),
          .spec = spec_from(asked.at("spec")),
          .batch_size = asked.number("batch_size", 1, kMaxBatchSize),
          .check_finite = asked.flag("check_finite"),
          .held = {.millionths = static_cast<std::uint32_t>(asked.number("held", 0, HeldShare::kAll))}};
}

Bytes to_bytes(const Opened& message) {
  return bytes_of({{"num_seeds", message.num_seeds},
                   {"worst_block", message.worst_block},
                   {"held_order", fmt::format("{:016x}", message.held_order)}});
}

template <>
Opened from_bytes<Opened>(std::span<const std::byte> payload) {
  const JsonMessage told = read_json(payload, "OPENED", kMaxSmallBytes);
  return {.num_seeds = told.number("num_seeds", 0, kAny),
          .worst_block = static_cast<std::uint64_t>(told.number("worst_block", 0, kMaxBlockBytes)),
          .held_order = told.hex("held_order")};
}

Bytes to_bytes(const GetClusters& message) {
  return bytes_of(
      {{"fingerprint", message.fingerprint}, {"node_type", message.node_type}, {"attr", message.attr}});
}

template <>
GetClusters from_bytes<GetClusters>(std::span<const std::byte> payload) {
  const JsonMessage asked = read_json(payload, "GET_CLUSTERS", kMaxSmallBytes);
  asked.only({"fingerprint", "node_type", "attr"});
  return {.fingerprint = asked.text(asked.whole(), "fingerprint", kMaxTextBytes),
          .node_type = asked.text(asked.whole(), "node_type", kMaxTextBytes),
          .attr = asked.text(asked.whole(), "attr", kMaxTextBytes)};
}

Bytes to_bytes(const Partitions& message) {
  json told{{"count", message.count},
            {"manifest", fmt::format("{:016x}", message.manifest)},
            {"here", message.here},
            {"state", message.keeps_state}};
  if (message.keeps_results) told["results"] = true;
  return bytes_of(told);
}

template <>
Partitions from_bytes<Partitions>(std::span<const std::byte> payload) {
  const JsonMessage told = read_json(payload, "PARTITIONS", kMaxSmallBytes);
  Partitions message{.count = static_cast<int>(told.number("count", 1, kMaxPartitions)),
                     .manifest = told.hex("manifest"),
                     .here = {},
                     .keeps_state = told.whole().contains("state") && told.flag("state"),         // from 3 on
                     .keeps_results = told.whole().contains("results") && told.flag("results")};  // from 4 on
  for (const json& entry : told.list("here")) {
    const bool is_one = entry.is_number_integer() && entry >= 0 && entry < message.count;
    if (!is_one) throw Error(ErrorCode::kCorrupt, "PARTITIONS cannot be read: its here names no partition");
    message.here.push_back(entry.get<int>());
  }
  return message;
}

Bytes to_bytes(const GetRows& message) {
  return bytes_of({{"fingerprint", message.fingerprint},
                   {"node_type", message.node_type},
                   {"attr", message.attr},
                   {"first", message.first},
                   {"count", message.count}});
}

template <>
GetRows from_bytes<GetRows>(std::span<const std::byte> payload) {
  const JsonMessage asked = read_json(payload, "GET_ROWS", kMaxSmallBytes);
  asked.only({"fingerprint", "node_type", "attr", "first", "count"});
  return {.fingerprint = asked.text(asked.whole(), "fingerprint", kMaxTextBytes),
          .node_type = asked.text(asked.whole(), "node_type", kMaxTextBytes),
          .attr = asked.text(asked.whole(), "attr", kMaxTextBytes),
          .first = asked.number("first", 0, kAny),
          .count = asked.number("count", 1, kAny)};
}

}  // namespace hopfeed::wire
