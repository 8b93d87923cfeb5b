// See seed_files.h.
#include "worker_mode/seed_files.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/dataset/npy.h"

namespace hopfeed {
namespace {

/// The elements of an array of as many dimensions that is of one of the types, as `To`.
template <class To, class... From>
std::vector<To> read_as(const NpyArray& array, const char* wanted, std::size_t dimensions = 1) {
  const NpyHeader& header = array.header();
  std::vector<To> values;
  const auto take = [&]<class T>(T) {
    if (header.descr != npy_descr(element_type_of<T>)) return false;
    const auto items = array.as<T>();
    values.assign(items.begin(), items.end());
    return true;
  };
  if (header.shape.size() == dimensions && (take(From{}) || ...)) {
    require_valid(!values.empty(), fmt::format("{} is empty", array.path().string()));
    return values;
  }
  throw Error(ErrorCode::kInvalid,
              fmt::format("{} is no {}: it holds '{}' in {} dimensions", array.path().string(), wanted,
                          header.descr, header.shape.size()));
}

LinkInput& links_of(LoaderOptions& options) {
  if (!options.links) options.links.emplace();
  return *options.links;
}

}  // namespace

void read_seeds(const std::filesystem::path& file, LoaderOptions& options) {
  const NpyArray array(file);
  if (array.header().descr == npy_descr(ElementType::kBool) && array.header().shape.size() == 1) {
    options.seed_mask.emplace();
    for (const std::byte flag : array.bytes().first(static_cast<std::size_t>(array.header().count())))
      options.seed_mask->push_back(flag != std::byte{0});
    return;
  }
  options.seeds = read_as<std::int64_t, std::int64_t, std::int32_t>(
      array, "list of seeds (int64 or int32 ids, or a bool per node)");
}

void read_seed_times(const std::filesystem::path& file, LoaderOptions& options) {
  options.seed_times =
      read_as<std::int64_t, std::int64_t, std::int32_t>(NpyArray(file), "list of times (int64 or int32)");
}

void read_links(const std::filesystem::path& file, LoaderOptions& options) {
  const NpyArray array(file);
  const char* wanted = "list of links (int64 or int32 [links, 2]: source and destination of each)";
  const std::vector<std::int64_t>& shape = array.header().shape;
  if (shape.size() == 2 && shape[1] != 2)
    throw Error(ErrorCode::kInvalid, fmt::format("{} is no {}: it has {} x {} elements", file.string(),
                                                 wanted, shape[0], shape[1]));
  links_of(options).pairs = read_as<std::int64_t, std::int64_t, std::int32_t>(array, wanted, 2);
}

void read_link_labels(const std::filesystem::path& file, LoaderOptions& options) {
  links_of(options).labels =
      read_as<std::int64_t, std::int64_t, std::int32_t>(NpyArray(file), "list of labels (int64 or int32)");
}

void read_link_times(const std::filesystem::path& file, LoaderOptions& options) {
  links_of(options).times =
      read_as<std::int64_t, std::int64_t, std::int32_t>(NpyArray(file), "list of times (int64 or int32)");
}

void read_seed_weights(const std::filesystem::path& file, LoaderOptions& options) {
  options.seed_weights =
      read_as<double, double, float>(NpyArray(file), "list of weights (float64 or float32)");
}

}  // namespace hopfeed
