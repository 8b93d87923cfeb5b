// Everything that decides the bytes of a job's batches, beside the key of each (epoch, first, count). Two
// jobs of equal specs make equal batches wherever they run: in this process, in a worker, on a server, from a
// checkpoint a year later. It names content and never a place: no path, no rank, no number of workers (those
// are Deal's and LocalExecution's).
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "core/batch/batch_options.h"

namespace hopfeed {

/// A SeedSpec says what the batches start from.
struct SeedSpec {
  std::string node_type = {};  // the seeds' type, by name; empty where they are links (batch.link.edge_type)
  std::string split = {};      // of the dataset, which its fingerprint covers; empty where seeds are given
  std::string sha256 = {};     // of the seeds that are given, as BatchSource::pack() writes them; else empty
  friend bool operator==(const SeedSpec&, const SeedSpec&) = default;
};

struct BatchSpec {
  static constexpr int kVersion = 1;  // of the JSON form
  /// It is raised whenever the same spec gives other bytes than before (the golden digests of the tests
  /// change).
  static constexpr int kRules = 1;

  std::string dataset = {};      // its name in meta.json, for people
  std::string fingerprint = {};  // of its imported content
  BatchOptions batch = {};
  SeedSpec seeds = {};
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// It is the SHA-256 of the plugin's file that brought batch.sampler; empty: the sampler is hopfeed's own.
  std::string sampler_sha256 = {};
  int rules = kRules;

  /// Returns one canonical line of JSON; from_json reads it back and throws kVersion for another version,
  /// kInvalid naming the key that is unknown, missing or has no such value.
  std::string to_json() const;
  static BatchSpec from_json(const std::string& text);
  /// Returns each part by name, as JSON text ("batch.fanouts" -> "[15,10,5]"): what a checkpoint stores, and
  /// what errors name.
  std::map<std::string, std::string> parts() const;
  /// Throws kVersion where the spec is of other rules than this build's: it would make other bytes.
  void require_rules() const;
  /// Compares whole specs: their JSON is one.
  friend bool operator==(const BatchSpec& a, const BatchSpec& b);
};

}  // namespace hopfeed
