// See step_batches.h.
#include "bench/trainer/step_batches.h"

#include <algorithm>
#include <memory>
#include <string>

#include "bench/bench_data.h"
#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/batch/block_file.h"
#include "core/dataset/dataset.h"
#include "core/dataset/npy.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"

namespace hopfeed::bench {

StepBatches make_batches(const BenchOptions& options, std::int64_t count,
                         const std::filesystem::path& folder) {
  const Dataset dataset(dataset_folder(options), {.huge_pages = options.huge_pages});
  const NodeTypeMeta& nodes = dataset.meta().node_types.front();
  StepBatches result{.classes = nodes.num_classes};
  for (const AttrMeta& attr : nodes.attrs) {
    if (attr.name == "x") result.features = attr.row_elements();
  }
  const NodeList seeds(dataset.split(0, "train"), {});
  BatchMaker maker(dataset, seeds, {.fanouts = options.fanouts});
  const std::int64_t size = std::min(options.batch_size, seeds.size());
  for (std::int64_t i = 0; i < std::min(count, seeds.size() / size); ++i) {
    const std::size_t bytes = maker.sample({.seed = 1, .epoch = 0, .first = i * size, .count = size});
    const auto block = std::make_shared<ScratchArray<std::byte>>();
    block->reserve(bytes);
    maker.write({block->data(), bytes});
    const BatchView view({block->data(), bytes});
    if (!folder.empty()) store_block(view, folder / ("batch-" + std::to_string(i) + ".npz"));
    result.blocks.push_back({.view = view, .memory = block});
    result.batches.push_back(to_tensors(view, block));
    if (!result.batches.back().x.defined() || !result.batches.back().y.defined())
      throw Error(ErrorCode::kInvalid,
                  "the dataset has no features 'x' or no labels 'y'; a training step needs both");
  }
  return result;
}

void store_parameters(const GraphSage& model, const std::filesystem::path& folder) {
  for (const auto& item : model->named_parameters()) {
    const torch::Tensor values = item.value().detach().contiguous();
    write_npy(
        folder / (item.key() + ".npy"),
        std::span<const float>(values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())),
        values.sizes().vec());
  }
}

}  // namespace hopfeed::bench
