// See conversion.h.
#include "python/module/conversion.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <xxhash.h>

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "partition_tool/dataset_build.h"
#include "partition_tool/import_numpy.h"
#include "partition_tool/node_order.h"
#include "partition_tool/numpy_description.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// The type of the elements as NumPy writes it.
std::string descr_of(const AnyArray& array) {
  const nb::dlpack::dtype type = array.dtype();
  const char* kind = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int)     ? "i"
                     : type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt)  ? "u"
                     : type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) ? "f"
                     : type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool)  ? "b"
                                                                                             : "V";
  const int bytes = type.bits / 8;
  return fmt::format("{}{}{}", bytes == 1 ? "|" : "<", kind, bytes);
}

std::span<const std::byte> bytes_of(const AnyArray& array) {
  return {static_cast<const std::byte*>(array.data()), array.nbytes()};
}

HeldArray held(const AnyArray& array) {
  HeldArray made{.descr = descr_of(array), .shape = {}, .bytes = bytes_of(array)};
  for (std::size_t d = 0; d < array.ndim(); ++d)
    made.shape.push_back(static_cast<std::int64_t>(array.shape(d)));
  return made;
}

/// Everything that make_dataset is given. The arrays are Python's, and read where they lie.
struct Conversion {
  std::string folder, description;
  std::map<std::string, AnyArray> arrays;
  bool overwrite = false, temporary = false;
  std::optional<nb::callable> progress;
};

/// Tells Python how far it is, and notices there that the user wants it to stop.
Progress progress_of(const Conversion& given) {
  return [&given, step = std::string(), percent = std::uint64_t{0}](const ProgressReport& report) mutable {
    const std::uint64_t now = report.total > 0 ? report.done * 100 / report.total : 100;
    if (step == report.step && now == percent) return;
    step = report.step;
    percent = now;
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (given.progress) (*given.progress)(step, percent);
  };
}

void convert(const Conversion& given) {
  const NumpyImportOptions options{
      .hetero = "data", .threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))};
  const NumpyGraph described =
      parse_numpy_description(given.description, options.hetero, [&](const std::string& name) {
        const auto array = given.arrays.find(name);
        require_valid(array != given.arrays.end(), "there is no array '" + name + "'");
        return ArraySource(name, held(array->second));
      });
  DatasetWriter writer(given.folder,
                       {.overwrite = given.overwrite, .sync = given.temporary ? Sync::kNo : Sync::kYes});
  const Progress progress = progress_of(given);
  const RawGraph graph = import_numpy(described, options, progress);
  const HotnessOptions hotness{.threads = options.threads};
  const std::vector<NodeOrder> orders =
      given.temporary ? order_nodes_by_degree(graph, progress) : order_nodes(graph, {}, 1, hotness, progress);
  const DatasetBuildResult built =
      build_dataset(writer, graph, orders,
                    {.cut = {.fanouts = hotness.fanouts, .batch_size = hotness.batch_size},
                     .made_by = "hopfeed.from_pyg",
                     .threads = options.threads},
                    progress);
  writer.commit(built.meta);
}

}  // namespace

void bind_conversion(nb::module_& module) {
  module.def(
      "make_dataset",
      [](const std::string& folder, const std::string& description, const nb::dict& arrays, bool overwrite,
         bool temporary, std::optional<nb::callable> progress) {
        Conversion given{folder, description, {}, overwrite, temporary, std::move(progress)};
        for (const auto& [name, array] : arrays)
          given.arrays.emplace(nb::cast<std::string>(name), nb::cast<AnyArray>(array));
        const nb::gil_scoped_release released;
        convert(given);
      },
      nb::arg("folder"), nb::arg("description"), nb::arg("arrays"), nb::kw_only(), nb::arg("overwrite"),
      nb::arg("temporary"), nb::arg("progress").none(),
      nb::sig(
          "def make_dataset(folder: str, description: str, arrays: dict[str, object], *, overwrite: bool, "
          "temporary: bool, progress: object) -> None"),
      "Makes a dataset folder. The description is that of hopfeed-partition import numpy --hetero, and names "
      "arrays in place of files; progress(step, percent) may raise. A temporary folder is not synced, and "
      "its "
      "nodes are ordered by their degree.");
  module.def(
      "digest_of",
      [](const AnyArray& array) {
        const std::span<const std::byte> bytes = bytes_of(array);
        const nb::gil_scoped_release released;
        const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
        return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
      },
      nb::arg("array"), nb::sig("def digest_of(array: object) -> str"),
      "XXH3-128 of an array's bytes, in hex.");
}

}  // namespace hopfeed::python
