// hopfeed._core: what Python needs of the C++ library. hopfeed/*.py is what people use.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "core/base/mapped_ranges.h"
#include "core/batch/batch_spec.h"
#include "python/module/batch.h"
#include "python/module/blocks.h"
#include "python/module/conversion.h"
#include "python/module/errors.h"
#include "python/module/inference.h"
#include "python/module/shown_warnings.h"
#include "python/module/state.h"
#include "python/module/stream.h"
#include "python/module/tables.h"
#include "python/module/truncated_files.h"
#include "stream/torchrun_environment.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.attr("version") = HOPFEED_VERSION;
  module.doc() = "The C++ library of hopfeed; use the package's own modules.";
  nb::set_leak_warnings(false);  // batches that are alive when the interpreter ends are no fault of anybody
  hopfeed::python::register_errors();
  hopfeed::python::survive_truncated_files();
  hopfeed::python::keep_warnings();
  hopfeed::python::bind_batch(module);
  hopfeed::python::bind_inference(module);
  hopfeed::python::bind_blocks(module);
  hopfeed::python::bind_stream(module);
  hopfeed::python::bind_conversion(module);
  hopfeed::python::bind_state(module);
  hopfeed::python::bind_tables(module);
  module.def("tell_world_size", &hopfeed::tell_world_size, nb::arg("world_size"),
             "How many trainers the run has, where the environment does not say it.");
  module.def(
      "note_mapped_file",
      [](std::uintptr_t begin, std::size_t bytes, const std::string& path) {
        hopfeed::note_mapped_range(reinterpret_cast<const std::byte*>(begin), bytes, path);
      },
      nb::arg("begin"), nb::arg("bytes"), nb::arg("path"),
      "A file that this process maps for good: a truncation of it is an error and no death.");
}
