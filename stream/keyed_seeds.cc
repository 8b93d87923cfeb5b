// See keyed_seeds.h.
#include "stream/keyed_seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/mapped_file.h"
#include "core/dataset/given_array.h"
#include "core/dataset/meta_file.h"
#include "core/dataset/node_keys.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOption = "--seeds-by-key";
constexpr std::size_t kShown = 80;  // bytes of a key in an error

/// A key as an error tells it; what ends lines of Windows is seen.
std::string shown(std::string_view key) {
  std::string text(key.substr(0, kShown));
  if (text.ends_with('\r')) text.replace(text.size() - 1, 1, "\\r");
  return key.size() <= kShown ? text : text + "...";
}

/// The 16 bytes of a UUID; none where it is no UUID.
std::optional<std::array<char, kUuidBytes>> uuid_of(std::string_view text) {
  constexpr std::string_view kForm = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
  if (text.size() != kForm.size()) return {};
  std::array<char, kUuidBytes> bytes{};
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] == '-') {
      if (text[i] != '-') return {};
      continue;
    }
    unsigned value = 0;
    const auto [end, error] = std::from_chars(&text[i], &text[i] + 1, value, 16);
    if (error != std::errc() || end != &text[i] + 1) return {};
    bytes[digits / 2] = static_cast<char>(static_cast<unsigned char>(bytes[digits / 2]) << 4 | value);
    ++digits;
  }
  return bytes;
}

class KeyedSeeds {
 public:
  KeyedSeeds(const fs::path& file, const NodeTypeMeta& node, const fs::path& dataset)
      : file_(file), node_(node), keys_(dataset, node) {}

  std::vector<std::int64_t> of_array() {
    const GivenArray array(file_);
    require_valid(keys_.type() == KeyType::kInt64,
                  fmt::format("{}: {} holds numbers, and the keys of node type '{}' are of type {}; give a "
                              "text file with a key in each line",
                              kOption, file_.string(), node_.name, to_string(keys_.type())));
    require_valid(array.has_integers() && array.shape().size() == 1,
                  fmt::format("{}: {} is no list of keys: it holds '{}' in the shape {}", kOption,
                              file_.string(), array.descr(), array.shape_text()));
    std::vector<std::int64_t> seeds(static_cast<std::size_t>(array.count()));
    array.read_integers(0, seeds);
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      const std::int64_t key = seeds[i];
      seeds[i] = known(keys_.find(key), std::to_string(key), fmt::format("entry {}", i));
    }
    return seeds;
  }

  std::vector<std::int64_t> of_lines() {
    const MappedFile mapped(file_);
    std::string_view rest(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    std::vector<std::int64_t> seeds;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const std::string where = fmt::format("line {}", seeds.size() + 1);
      seeds.push_back(known(found(line, where), line, where));
    }
    return seeds;
  }

 private:
  std::int64_t found(std::string_view line, const std::string& where) const {
    if (keys_.type() == KeyType::kString) return keys_.find(line);
    if (keys_.type() == KeyType::kUuid) {
      const auto bytes = uuid_of(line);
      if (!bytes) refuse(line, where);
      return keys_.find(std::string_view(bytes->data(), bytes->size()));
    }
    std::int64_t key = 0;
    const char* const end = line.data() + line.size();
    const auto [at, error] = std::from_chars(line.data(), end, key);
    if (error != std::errc() || at != end) refuse(line, where);
    return keys_.find(key);
  }

  [[noreturn]] void refuse(std::string_view line, const std::string& where) const {
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("{}: {}, {}: '{}' is no key of node type '{}', whose keys are of type {}", kOption,
                    file_.string(), where, shown(line), node_.name, to_string(keys_.type())));
  }

  std::int64_t known(std::int64_t node, std::string_view key, const std::string& where) const {
    if (node >= 0) return node;
    throw Error(ErrorCode::kNotFound, fmt::format("{}: {}, {}: no node of type '{}' has the key '{}'",
                                                  kOption, file_.string(), where, node_.name, shown(key)));
  }

  const fs::path& file_;
  const NodeTypeMeta& node_;
  const NodeKeys keys_;
};

}  // namespace

void read_seeds_by_key(const fs::path& file, LoaderOptions& options) {
  require_valid(!options.dataset.empty(),
                fmt::format("{} reads the keys in the dataset's folder, and with --servers there is none; "
                            "turn keys into ids (Dataset.ids in Python) and give --seeds",
                            kOption));
  const fs::path dataset(options.dataset);
  const DatasetMeta meta = read_meta(dataset);
  const int type = options.node_type.empty() ? 0 : meta.node_type(options.node_type);
  KeyedSeeds keyed(file, meta.node_types[static_cast<std::size_t>(type)], dataset);
  options.seeds = file.extension() == ".npy" ? keyed.of_array() : keyed.of_lines();
  require_valid(!options.seeds->empty(), fmt::format("{}: {} is empty", kOption, file.string()));
}

}  // namespace hopfeed
