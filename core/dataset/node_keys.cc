// See node_keys.h.
#include "core/dataset/node_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <ranges>

#include "core/base/error.h"
#include "core/dataset/corrupt_file.h"

namespace hopfeed {

KeyDigest::KeyDigest() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_);
}

KeyDigest::~KeyDigest() { XXH3_freeState(state_); }

void KeyDigest::add(std::span<const std::byte> keys) {
  XXH3_128bits_update(state_, keys.data(), keys.size());
}

void KeyDigest::add_string(std::string_view key) {
  const std::uint64_t length = key.size();
  XXH3_128bits_update(state_, &length, sizeof length);
  XXH3_128bits_update(state_, key.data(), key.size());
}

std::string KeyDigest::finish() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

NodeKeys::NodeKeys(const std::filesystem::path& dataset, const NodeTypeMeta& node)
    : type_(node.keys.type), size_(node.count) {
  const std::filesystem::path path = dataset / keys_path(node);
  if (!node.has_keys())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: node type '{}' has no keys; import it from tables, with keys",
                            dataset.string(), node.name));
  if (!std::filesystem::exists(path))
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} is not here: keys of node type '{}' were left out when the "
                            "dataset was pushed; push it with --with-keys",
                            path.string(), node.name));
  keys_ = NpyArray(path);
  const auto require_shape = [](const NpyArray& file, const std::vector<std::int64_t>& shape) {
    if (file.header().shape != shape) corrupt_file(file.path(), "it has another shape than meta.json says");
  };
  switch (type_) {
    case KeyType::kInt64:
      require_shape(keys_, {size_});
      numbers_ = keys_.as<std::int64_t>();
      return;
    case KeyType::kUuid:
      keys_.require_descr(npy_descr(ElementType::kUint8));
      require_shape(keys_, {size_, kUuidBytes});
      return;
    default:
      break;
  }
  keys_.require_descr(npy_descr(ElementType::kUint8));
  offsets_file_ = NpyArray(dataset / key_offsets_path(node));
  require_shape(offsets_file_, {size_ + 1});
  offsets_ = offsets_file_.as<std::int64_t>();
  if (offsets_.front() != 0 || offsets_.back() != std::ssize(keys_.bytes()) ||
      !std::ranges::is_sorted(offsets_))
    corrupt_file(offsets_file_.path(), "its offsets do not rise from 0 to the bytes of all keys");
}

std::string_view NodeKeys::bytes(std::int64_t node) const {
  const auto at = static_cast<std::size_t>(node);
  const auto* const first = reinterpret_cast<const char*>(keys_.bytes().data());
  if (type_ == KeyType::kUuid) return {first + at * kUuidBytes, kUuidBytes};
  return {first + offsets_[at], static_cast<std::size_t>(offsets_[at + 1] - offsets_[at])};
}

bool NodeKeys::less(std::int64_t a, std::int64_t b) const {
  return type_ == KeyType::kInt64 ? number(a) < number(b) : bytes(a) < bytes(b);
}

std::int64_t NodeKeys::find(std::int64_t key) const {
  require_valid(type_ == KeyType::kInt64,
                fmt::format("{} is no key here: they are of type {}", key, to_string(type_)));
  const auto found = std::ranges::lower_bound(numbers_, key);
  return found != numbers_.end() && *found == key ? found - numbers_.begin() : -1;
}

std::int64_t NodeKeys::find(std::string_view key) const {
  require_valid(type_ != KeyType::kInt64, fmt::format("'{}' is no key here: they are of type int64", key));
  const auto nodes = std::views::iota(std::int64_t{0}, size_);
  const auto found = std::ranges::lower_bound(nodes, key, {}, [&](std::int64_t node) { return bytes(node); });
  return found != nodes.end() && bytes(*found) == key ? *found : -1;
}

std::string NodeKeys::digest() const {
  KeyDigest digest;
  if (type_ != KeyType::kString)
    digest.add(keys_.bytes());
  else
    for (std::int64_t node = 0; node < size_; ++node) digest.add_string(bytes(node));
  return digest.finish();
}

}  // namespace hopfeed
