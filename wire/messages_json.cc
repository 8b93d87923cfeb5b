// See messages.h: the messages that are JSON. A server takes no key that it does not know, since each changes
// what is asked for; a client passes over those that a later server adds to its answers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

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

/// An object of JSON that is read key by key.
class JsonMessage {
 public:
  JsonMessage(const std::string& text, const char* message) : message_(message) {
    if (json_depth(text) > kMaxJsonDepth) fail(ErrorCode::kInvalid, "its JSON nests too deep");
    whole_ = parse_json(text);
    if (whole_.is_discarded())
      fail(ErrorCode::kCorrupt,
           fmt::format("it is no JSON: {}", as_line(json_complaint(text), kMaxTextBytes)));
    if (!whole_.is_object()) fail(ErrorCode::kCorrupt, "it is no JSON object");
    if (const std::string key = repeated_key(text); !key.empty())
      fail(ErrorCode::kCorrupt, fmt::format("it has the key '{}' twice", shown(key)));
  }
  void only(const std::set<std::string>& keys) const {
    for (const auto& [key, value] : whole_.items())
      if (!keys.contains(key))
        fail(ErrorCode::kInvalid, fmt::format("it has the unknown key '{}'", shown(key)));
  }
  const json& whole() const { return whole_; }
  const json& at(const json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key))
      fail(ErrorCode::kInvalid, fmt::format("it lacks the key '{}'", key));
    return object.at(key);
  }
  const json& at(const char* key) const { return at(whole_, key); }
  std::string text(const json& object, const char* key, std::size_t max_bytes) const {
    const json& value = at(object, key);
    if (!value.is_string()) wrong(key);
    auto text = value.get<std::string>();
    if (text.size() > max_bytes || !is_text(text, Lines::kOne)) wrong(key);
    return text;
  }
  bool flag(const char* key) const {
    if (!at(key).is_boolean()) wrong(key);
    return at(key).get<bool>();
  }
  /// 64 bits as 16 hex digits.
  std::uint64_t hex(const char* key) const {
    const std::string digits = text(whole_, key, 16);
    std::uint64_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (digits.size() != 16 || read.ec != std::errc() || read.ptr != digits.data() + digits.size())
      wrong(key);
    return number;
  }
  /// A whole number from `least` to `most`, written as such.
  std::int64_t number(const char* key, std::int64_t least, std::int64_t most) const {
    const json& value = at(key);
    if (!is_whole(value, least, most))
      fail(ErrorCode::kInvalid, fmt::format("'{}' is {}, and may be a whole number from {} to {}", key,
                                            json_shown(value), least, most));
    return value.get<std::int64_t>();
  }
  const json& list(const char* key) const {
    if (!at(key).is_array()) wrong(key);
    return at(key);
  }

 private:
  static std::string shown(const std::string& key) { return as_line(key, 64); }
  [[noreturn]] void wrong(const char* key) const {
    fail(ErrorCode::kInvalid, fmt::format("'{}' has no value that it may have", key));
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("{} cannot be read: {}", message_, what));
  }

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
    throw Error(error.code(), as_line(error.what(), kMaxSmallBytes));
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
  return bytes_of({{"count", message.count},
                   {"manifest", fmt::format("{:016x}", message.manifest)},
                   {"here", message.here}});
}

template <>
Partitions from_bytes<Partitions>(std::span<const std::byte> payload) {
  const JsonMessage told = read_json(payload, "PARTITIONS", kMaxSmallBytes);
  Partitions message{.count = static_cast<int>(told.number("count", 1, kMaxPartitions)),
                     .manifest = told.hex("manifest"),
                     .here = {}};
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
