// NodeKeys are what users call the nodes of a type by in their tables, in order: integers by value, strings
// and UUIDs by their bytes. A node's original id is its key's place.
#pragma once
#include <xxhash.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/npy.h"

namespace hopfeed {

inline constexpr std::size_t kUuidBytes = 16;

/// A KeyDigest is made of the keys front to back (KeysMeta::digest).
class KeyDigest {
 public:
  KeyDigest();
  ~KeyDigest();
  KeyDigest(const KeyDigest&) = delete;
  KeyDigest& operator=(const KeyDigest&) = delete;
  /// Adds int64 keys, or UUIDs, one behind the other.
  void add(std::span<const std::byte> keys);
  void add_string(std::string_view key);
  /// Returns 32 hex digits.
  std::string finish() const;

 private:
  XXH3_state_t* state_;
};

class NodeKeys {
 public:
  /// Maps the files of a type that has keys. Throws kNotFound where this folder has none of them, kCorrupt
  /// naming the file.
  NodeKeys(const std::filesystem::path& dataset, const NodeTypeMeta& node);

  KeyType type() const { return type_; }
  std::int64_t size() const { return size_; }
  /// Returns the key of a node (an original id in range). The first is of KeyType::kInt64, the others of
  /// the others: a UUID is 16 bytes.
  std::int64_t number(std::int64_t node) const { return numbers_[static_cast<std::size_t>(node)]; }
  std::string_view bytes(std::int64_t node) const;
  /// Returns the node of a key; -1 where none has it. Throws kInvalid for a key of another type.
  std::int64_t find(std::int64_t key) const;
  std::int64_t find(std::string_view key) const;

  /// The arrays as they lie: of int64 keys; of the others; where strings begin.
  std::span<const std::int64_t> numbers() const { return numbers_; }
  std::span<const std::uint8_t> all_bytes() const { return keys_.as<std::uint8_t>(); }
  std::span<const std::int64_t> offsets() const { return offsets_; }

  bool less(std::int64_t a, std::int64_t b) const;
  std::string digest() const;

 private:
  const KeyType type_;
  const std::int64_t size_;
  NpyArray keys_, offsets_file_;
  std::span<const std::int64_t> numbers_, offsets_;
};

/// Returns XXH3-64 of a key's bytes with a seed: what splits and random cuts go by. Integers are
/// little-endian.
inline std::uint64_t key_hash(std::int64_t key, std::uint64_t seed) {
  return XXH3_64bits_withSeed(&key, sizeof key, seed);
}
inline std::uint64_t key_hash(std::string_view key, std::uint64_t seed) {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

}  // namespace hopfeed
