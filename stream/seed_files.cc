// See seed_files.h.
#include "stream/seed_files.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/dataset/given_array.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

/// Calls read(array); errors name `field`, and the file.
template <class Read>
void read_file(const char* field, const fs::path& file, const Read& read) {
  try {
    read(GivenArray(file));
  } catch (const Error& error) {
    throw Error(error.code(), marked(field) + ": " + error.message());
  }
}

[[noreturn]] void refuse(const GivenArray& array, const char* wanted) {
  throw Error(ErrorCode::kInvalid,
              fmt::format("{} is no {}: it holds '{}' in the shape {}", array.path().string(), wanted,
                          array.descr(), array.shape_text()));
}

void require_some(const GivenArray& array) {
  require_valid(array.count() > 0, fmt::format("{} is empty", array.path().string()));
}

std::vector<std::int64_t> integers(const GivenArray& array, const char* wanted) {
  if (!array.has_integers() || array.shape().size() != 1) refuse(array, wanted);
  require_some(array);
  std::vector<std::int64_t> values(static_cast<std::size_t>(array.count()));
  array.read_integers(0, values);
  return values;
}

/// Sources, then as many destinations -> source and destination of each link.
std::vector<std::int64_t> interleaved(const std::vector<std::int64_t>& rows) {
  const std::size_t links = rows.size() / 2;
  std::vector<std::int64_t> pairs;
  pairs.reserve(rows.size());
  for (std::size_t i = 0; i < links; ++i) pairs.insert(pairs.end(), {rows[i], rows[links + i]});
  return pairs;
}

LinkInput& links_of(LoaderOptions& options) {
  if (!options.links) options.links.emplace();
  return *options.links;
}

}  // namespace

void read_seeds(const fs::path& file, LoaderOptions& options) {
  read_file("seeds", file, [&](const GivenArray& array) {
    if (array.type() == ElementType::kBool && array.shape().size() == 1) {
      options.seed_mask.emplace();
      for (const std::byte flag : std::as_bytes(array.stored<bool>()))
        options.seed_mask->push_back(flag != std::byte{0});
      return;
    }
    options.seeds = integers(array, "list of seeds (integers, the ids, or a bool per node)");
  });
}

void read_seed_times(const fs::path& file, LoaderOptions& options) {
  read_file("seed_times", file, [&](const GivenArray& array) {
    options.seed_times = integers(array, "list of times (integers)");
  });
}

void read_seed_weights(const fs::path& file, LoaderOptions& options) {
  read_file("seed_weights", file, [&](const GivenArray& array) {
    const bool wide = array.type() == ElementType::kFloat64;
    if ((!wide && array.type() != ElementType::kFloat32) || array.shape().size() != 1)
      refuse(array, "list of weights (float64 or float32)");
    require_some(array);
    std::vector<double>& weights = options.seed_weights;
    weights.resize(static_cast<std::size_t>(array.count()));
    if (wide) return array.read(0, std::span(weights));
    std::vector<float> narrow(weights.size());
    array.read(0, std::span(narrow));
    weights.assign(narrow.begin(), narrow.end());
  });
}

void read_links(const fs::path& file, LoaderOptions& options) {
  read_file("links", file, [&](const GivenArray& array) {
    const std::vector<std::int64_t>& shape = array.shape();
    const bool a_row_each = shape.size() == 2 && shape[1] == 2;
    if (!array.has_integers() || shape.size() != 2 || (!a_row_each && shape[0] != 2))
      refuse(array, "list of links (integers [links, 2]: source and destination of each; or [2, links])");
    require_some(array);
    std::vector<std::int64_t> pairs(static_cast<std::size_t>(array.count()));
    array.read_integers(0, pairs);
    links_of(options).pairs = a_row_each ? std::move(pairs) : interleaved(pairs);
  });
}

void read_link_labels(const fs::path& file, LoaderOptions& options) {
  read_file("links.labels", file, [&](const GivenArray& array) {
    links_of(options).labels = integers(array, "list of labels (integers)");
  });
}

void read_link_times(const fs::path& file, LoaderOptions& options) {
  read_file("links.times", file, [&](const GivenArray& array) {
    links_of(options).times = integers(array, "list of times (integers)");
  });
}

}  // namespace hopfeed
