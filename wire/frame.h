// One frame of the wire: a header of 24 bytes, then its payload, then, on connections without TLS that speak
// version 2, the crc32c of both. docs/protocol.md has every byte.
//
//   offset  size  field
//   0       4     magic "HPF1"
//   4       2     type (FrameType)
//   6       2     reserved, 0
//   8       8     request: the batch or question that it belongs to, 0: the connection
//   16      8     bytes of the payload; a checksum behind it is not counted
//
// All numbers are little-endian.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hopfeed::wire {

inline constexpr std::uint32_t kFrameMagic = 0x31465048;  // "HPF1"
inline constexpr std::uint16_t kProtocolVersion = 5, kOldestProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 24, kChecksumBytes = 4;

/// Parts of payloads: of login, all of BATCH, and what BLOCK has before its block.
inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
inline constexpr std::size_t kBatchAskedBytes = 40, kBlockHeadBytes = 24;

enum class FrameType : std::uint16_t {
  // login, in this order; C: a client sends it, S: a server does
  kHello = 1,      // C  versions that it knows, its nonce, its name
  kChallenge = 2,  // S  the version, whether it wants a token, its nonce
  kLogin = 3,      // C  the client's proof
  kWelcome = 4,    // S  the server's proof; then what it offers, as JSON
  kRefused = 5,    // S  to a question, or (request 0) to the connection, which ends: code and text
  // questions; request numbers are the client's, each is answered once
  kGetMeta = 10,       // C  fingerprint, or name of a dataset, or nothing where there is one
  kMeta = 11,          // S  its meta.json
  kOpen = 12,          // C  a job, as JSON: number, spec, largest batch
  kOpened = 13,        // S  JSON: positions of an epoch, largest block
  kUnknownSeeds = 14,  // S  to kOpen: send them first (kSeeds)
  kSeeds = 15,         // C  what BatchSource::pack() gave
  kSeedsKept = 16,     // S
  kGetClusters = 17,   // C  JSON: dataset, node type, attribute: seeds of the cluster sampler
  kIds = 18,           // S  int64 ids
  kCloseJob = 19,      // C  a job's number; no answer
  // batches; request is the sequence of the client's slot: the lower, the more urgent
  kBatch = 20,    // C  job, epoch, first, count, bytes that its slot holds
  kSize = 21,     // S  the block is made and takes so many bytes, more than are granted
  kGrant = 22,    // C  bytes that the slot holds now
  kBlock = 23,    // S  BlockHead, the block; in version 1 crc32c of the block (none under TLS)
  kFailed = 24,   // S  no batch can be made: code and text, for next() to throw
  kCancel = 25,   // C  nobody wants it any more
  kDropped = 26,  // S  nothing more comes for this request: cancelled, or the server leaves
  // the connection
  kPing = 30,       // either; payload is sent back
  kPong = 31,       // either
  kDraining = 32,   // S  the server is about to leave: what is asked for comes, ask others for more
  kGetStatus = 33,  // C
  kStatus = 34,     // S  JSON
  // rows of features, for a client that holds some; questions as those above
  kGetRows = 40,  // C  JSON: dataset, node type, attribute, first row and how many
  kRows = 41,     // S  the rows, tightly packed
  // partitions, between machines (core/sampler/peer_questions.h)
  kGetPartitions = 50,  // C  fingerprint of a dataset
  kPartitions = 51,     // S  JSON: how it is cut, and which of its partitions are here
  kAsk = 52,            // C  a question of the dataset that was named last, and its checksum
  kAnswer = 53,         // S  its answer, and the checksum
  // state that training learns or writes, from version 3 on (state/owner/state_questions.h)
  kState = 60,        // C  a question about state of the dataset that was named last, and its checksum
  kStateAnswer = 61,  // S  its answer, and the checksum
  // rows that an inference beside the server computes, from version 4 on (results/results_questions.h)
  kResults = 70,        // C  a question about a run's rows, and its checksum
  kResultsAnswer = 71,  // S  its answer, and the checksum
};
/// "BATCH", ... ; nothing for a number that is no type.
std::string_view name_of(FrameType type);

struct FrameHeader {
  FrameType type{};
  std::uint64_t request = 0;
  std::uint64_t bytes = 0;  // of the payload
};

/// Which way a frame goes, and when.
enum class Side { kClient, kServer };  // who receives it
enum class Phase { kLogin, kOpen };

/// What of the bytes on a connection is followed by its crc32c: nothing (TLS has its own, and login proves
/// what it has to), blocks alone (version 1), or each frame (from version 2 on).
enum class Sums { kNone, kBlocks, kFrames };

void write_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> to);
/// Throws kCorrupt for bytes that are no header (naming what they look like: HTTP, TLS), kInvalid for a type
/// that this side does not expect in this phase, and where the payload is larger than such a frame may be,
/// before memory is taken for it.
FrameHeader read_header(std::span<const std::byte, kFrameHeaderBytes> from, Side receiver, Phase phase);
/// What bytes that are no frame look like, for messages: "an HTTP request", "TLS", ...
std::string looks_like(std::span<const std::byte> bytes);
/// Whether frames of this type end with the checksum that frames have from version 2 on. ASK, STATE, RESULTS
/// and their answers have one of their own in their payload, under TLS too.
bool is_summed(FrameType type);
/// The largest payload of a type (core/base/limits.h).
std::uint64_t max_payload(FrameType type);

}  // namespace hopfeed::wire
