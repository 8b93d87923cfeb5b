// All limits of hopfeed stand here. Whatever comes from a user, a file or a socket is checked against these
// at the door; each has a test one above it (tests/core/limits_test.cc; those of the wire:
// tests/wire/frame_limits_test.cc).
#pragma once
#include <cstddef>
#include <cstdint>

namespace hopfeed {

inline constexpr std::int64_t kMaxHops = 16;
inline constexpr std::int64_t kMaxFanout = 65'535;          // larger: ask for all neighbours with -1
inline constexpr std::int64_t kMaxNegativeAmount = 65'536;  // negatives for each link
inline constexpr std::int64_t kMaxWalkLength = 1'024;
inline constexpr std::int64_t kMaxWalksPerSeed = 1'024;
inline constexpr std::int64_t kMaxBatchSize = 16'777'216;  // seeds per batch
inline constexpr std::int64_t kMaxBatchNodes = 1
                                               << 29;  // of one type; local ids are 32-bit inside the sampler
inline constexpr std::int64_t kMaxNodes = std::int64_t{1} << 48;
inline constexpr std::int64_t kMaxEdges = std::int64_t{1} << 48;
inline constexpr std::int64_t kMaxWeightedDegree =
    (std::int64_t{1} << 31) - 1;                                     // edges of a row with an alias table
inline constexpr std::uint64_t kMaxLaborDegree = ~std::uint32_t{0};  // edges of a row of which some are drawn
inline constexpr std::size_t kMaxTimeBounds = 65'535;  // of the times of an edge type: codes are 16 bits
inline constexpr std::int64_t kMaxPartitions = 4'096;
inline constexpr std::int64_t kMaxTypes = 4'096;        // node types, and edge types
inline constexpr std::int64_t kMaxAttrs = 256;          // per node type and per edge type
inline constexpr std::int64_t kMaxRowBytes = 16 << 20;  // one node's row of one attribute
inline constexpr std::size_t kMaxNameBytes = 32;        // of a type, attribute or split
inline constexpr std::size_t kMaxMetaBytes = 64 << 20;  // meta.json
inline constexpr std::size_t kMaxNpyHeaderBytes = 64 << 10;
inline constexpr std::size_t kMaxBlockArrays = 65'536;  // arrays of one batch block
inline constexpr std::size_t kMaxBlockBytes = std::size_t{1} << 40;
inline constexpr std::int64_t kMaxWorkers = 256;                // per loader
inline constexpr std::int64_t kMaxSlots = 1'024;                // per channel
inline constexpr std::int64_t kMaxDeadlineMs = 31'536'000'000;  // a year; sums of them fit nanoseconds
inline constexpr std::int64_t kMaxHidden = 65'536;              // width of a model's layer
inline constexpr std::int64_t kMaxEmbeddingElements = std::int64_t{1} << 30;  // learned for nodes of one type
inline constexpr std::int64_t kMaxWorldSize = 65'536;

// These are limits of the wire (docs/protocol.md).
inline constexpr std::size_t kMaxLoginBytes = 4 << 10;  // all that a client may send before it is logged in
inline constexpr std::size_t kMaxClientName = 128;      // for people: host, process and rank
inline constexpr std::size_t kMaxTokenBytes = 1 << 10;
inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMaxOfferBytes = 1 << 20;  // what a server offers, as JSON
inline constexpr std::size_t kMaxOpenBytes = 1 << 20;   // a job with its batch spec, as JSON
inline constexpr std::size_t kMaxSmallBytes = 4 << 10;  // questions, their short answers, a refusal's text
inline constexpr std::size_t kMaxStatusBytes = 16 << 20;
inline constexpr std::size_t kMaxSeedsBytes = std::size_t{4}
                                              << 30;   // seeds that a client gives, ids that it gets
inline constexpr std::size_t kMaxRowsBytes = 4 << 20;  // rows of features in one answer
inline constexpr std::size_t kMaxPeerQuestion = std::size_t{256}
                                                << 20;  // between machines that have partitions
inline constexpr std::size_t kMaxPeerAnswer = std::size_t{1} << 30;
inline constexpr std::size_t kMaxStateMessage = std::size_t{1} << 30;  // questions about state, and answers
inline constexpr std::size_t kMaxPeerJobs =
    64;  // options of batches that an owner of partitions knows at a time
inline constexpr std::size_t kMaxPingBytes = 64;
inline constexpr std::size_t kMaxJsonDepth = 32;        // of JSON that came over the wire
inline constexpr std::size_t kMaxSocketPath = 107;      // bytes; what the operating system takes
inline constexpr std::size_t kMaxServers = 4'096;       // servers that a client is told of
inline constexpr std::int64_t kMaxOutstanding = 1'024;  // batches that one client waits for
inline constexpr std::int64_t kMaxJobsPerClient = 64;   // open at a time
/// So many bytes of answers to one client, blocks not counted, may wait to be sent; with more the server
/// reads no further question of it.
inline constexpr std::size_t kMaxQueuedAnswers = 1 << 20;
inline constexpr std::int64_t kMaxOnlookers = 64;  // clients beyond --max-clients, which open no job
inline constexpr int kMaxStrangersOfOne = 64;      // connections of one address that have not logged in
inline constexpr std::size_t kMaxEventBytes = 256 << 10;  // lines of a server's log that wait to be written

}  // namespace hopfeed
