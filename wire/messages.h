// What the frames carry, as structs, and their bytes. Reading validates every field before it is used;
// whatever is left over or missing is kCorrupt. Texts are valid UTF-8 without control characters, or refused.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/batch/batch_spec.h"
#include "core/batch/held_share.h"
#include "wire/frame.h"

namespace hopfeed::wire {

using Nonce = std::array<std::byte, kNonceBytes>;
using Proof = std::array<std::byte, kProofBytes>;
using Bytes = std::vector<std::byte>;

// ---- login
struct Hello {
  std::uint16_t min_version = kOldestProtocolVersion, max_version = kProtocolVersion;
  Nonce nonce{};
  std::string name;  // host, process and rank, for people; at most kMaxClientName bytes
};
struct Challenge {
  std::uint16_t version = kProtocolVersion;
  bool wants_token = false;
  Nonce nonce{};
};
struct Login {
  Proof proof{};  // zeros where no token is wanted
};
/// What a server offers.
struct Offer {
  struct Dataset {
    std::string name, fingerprint;
  };
  struct Sampler {
    std::string name, sha256;  // of the plugin's file
  };
  std::string software;  // "hopfeed 0.1.0"
  std::string server;    // host and process, for people
  int rules = BatchSpec::kRules;
  bool checksums = true;  // in version 1: a block is followed by its crc32c
  bool draining = false;
  std::vector<Dataset> datasets;
  std::vector<Sampler> samplers;  // that its operator's plugins brought
};
struct Welcome {
  Proof proof{};
  Offer offer;
};

// ---- questions
struct Refusal {  // of kRefused and kFailed
  ErrorCode code = ErrorCode::kInvalid;
  std::string text;
};
struct Open {
  std::uint32_t job = 0;  // the client's number for it
  BatchSpec spec;
  std::int64_t batch_size = 1;  // no batch of the job has more seeds
  bool check_finite = false;
  HeldShare held = {};  // rows that the client means to hold
};
struct Opened {
  std::int64_t num_seeds = 0;     // positions of an epoch
  std::uint64_t worst_block = 0;  // bytes of the largest block that batch_size seeds can make
  std::uint64_t held_order = 0;   // names these rows in their order (cache/held_rows.h); 0: none were named
};
/// Consecutive rows of an attribute, by dataset id.
struct GetRows {
  std::string fingerprint, node_type, attr;
  std::int64_t first = 0, count = 1;
};
/// The partitions of a dataset that a server has.
struct Partitions {
  int count = 1;               // of the dataset
  std::uint64_t manifest = 0;  // of its cut (manifest_hash)
  std::vector<int> here;
  bool keeps_state = false;    // of training, of those that are here
  bool keeps_results = false;  // of an inference, likewise
};
struct GetClusters {
  std::string fingerprint, node_type, attr;
};

// ---- batches
struct BatchAsked {
  std::uint32_t job = 0;
  std::int64_t epoch = 0, first = 0, count = 0;
  std::uint64_t granted = 0;  // bytes that the slot holds already
  HeldShare held = {};        // none, or what the job was opened with: rows that may be left out
};
/// Before the block, in kBlock. Durations, since clocks of two machines differ.
struct BlockHead {
  std::uint32_t worker = 0;                  // number of the server's worker
  std::int64_t sampling = 0, gathering = 0;  // nanoseconds
};
/// Bytes of the block in a kBlock frame. Throws kCorrupt where the frame is too short for its other parts.
std::uint64_t block_bytes(const FrameHeader& header, Sums sums);

Bytes to_bytes(const Hello& message);
Bytes to_bytes(const Challenge& message);
Bytes to_bytes(const Login& message);
Bytes to_bytes(const Welcome& message);
Bytes to_bytes(const Refusal& message);
Bytes to_bytes(const Open& message);
Bytes to_bytes(const Opened& message);
Bytes to_bytes(const GetClusters& message);
Bytes to_bytes(const GetRows& message);
Bytes to_bytes(const Partitions& message);
Bytes to_bytes(const BatchAsked& message);
Bytes to_bytes(const BlockHead& message);
Bytes to_bytes(std::uint64_t number);   // kSize, kGrant, kCloseJob
Bytes to_bytes(std::string_view text);  // kGetMeta, kMeta, kStatus, kGetPartitions

/// Message from_bytes<Message>(payload). Throws kCorrupt, kVersion or kInvalid naming the field. Of the
/// messages above, std::uint64_t and std::string (UTF-8, of any number of lines).
template <class Message>
Message from_bytes(std::span<const std::byte> payload);
// Said here, so that nobody makes one of his own before the definition is seen.
template <>
Hello from_bytes<Hello>(std::span<const std::byte> payload);
template <>
Challenge from_bytes<Challenge>(std::span<const std::byte> payload);
template <>
Login from_bytes<Login>(std::span<const std::byte> payload);
template <>
Welcome from_bytes<Welcome>(std::span<const std::byte> payload);
template <>
Refusal from_bytes<Refusal>(std::span<const std::byte> payload);
template <>
Open from_bytes<Open>(std::span<const std::byte> payload);
template <>
Opened from_bytes<Opened>(std::span<const std::byte> payload);
template <>
GetClusters from_bytes<GetClusters>(std::span<const std::byte> payload);
template <>
GetRows from_bytes<GetRows>(std::span<const std::byte> payload);
template <>
Partitions from_bytes<Partitions>(std::span<const std::byte> payload);
template <>
BatchAsked from_bytes<BatchAsked>(std::span<const std::byte> payload);
template <>
BlockHead from_bytes<BlockHead>(std::span<const std::byte> payload);
template <>
std::uint64_t from_bytes<std::uint64_t>(std::span<const std::byte> payload);
template <>
std::string from_bytes<std::string>(std::span<const std::byte> payload);

}  // namespace hopfeed::wire
