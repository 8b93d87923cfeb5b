// See sage_layer.h.
#include "trainer/sage_layer.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "trainer/cpu_kernels.h"
#include "trainer/mean_aggregation.h"
#include "trainer/numerics.h"
#include "trainer/relu_dropout.h"
#include "trainer/tensor_pool.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kRunBytes = 1 << 20;  // of a run's rows in all matrices: half a second-level cache
constexpr std::int64_t kMinRunRows = 64, kMaxRunRows = 512;
constexpr std::int64_t kMaxPartialSums = 32, kRunsPerPartialSum = 4;
constexpr std::int64_t kGatherGrain = 256;  // rows handed to a thread at a time

/// Rows [begin, end) of all matrices of a layer.
struct Run {
  std::int64_t begin, end;
  torch::Tensor of(const torch::Tensor& matrix) const { return matrix.narrow(0, begin, end - begin); }
};

/// How the rows of a layer are cut into runs, and the runs into the groups that are summed apart.
struct Runs {
  std::int64_t rows, rows_per_run;

  Runs(std::int64_t rows, std::int64_t in, std::int64_t out, torch::Dtype dtype)
      : rows(rows),
        rows_per_run(
            std::clamp(kRunBytes / static_cast<std::int64_t>(torch::elementSize(dtype)) / (2 * in + out),
                       kMinRunRows, kMaxRunRows)) {}
  std::int64_t count() const { return (rows + rows_per_run - 1) / rows_per_run; }
  Run operator[](std::int64_t i) const { return {i * rows_per_run, std::min(rows, (i + 1) * rows_per_run)}; }
  std::int64_t groups() const {
    return std::clamp(count() / kRunsPerPartialSum, std::int64_t{1}, kMaxPartialSums);
  }
};

template <class T>
MatrixView<T> view_of(const torch::Tensor& matrix) {
  return {matrix.const_data_ptr<T>(), matrix.stride(0), matrix.size(1)};
}

/// Calls body(i) for i in [0, count), shared out to Torch's threads. Inside, Torch's operations record
/// nothing.
template <class Body>
void for_each(std::int64_t count, std::int64_t grain, Body body) {
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    body(begin, end);
  });
}

struct Layer {
  CompressedRows rows;
  SageWeights weights;
  torch::Tensor x, mean, out;
  double scale = 1;  // of kept units
  bool relu = false;

  Runs runs() const { return {rows.num_rows(), x.size(1), weights.self.size(0), x.scalar_type()}; }
};

template <class T>
void forward_run(const Layer& layer, const Run& run, DropRule rule) {
  reduce_segments(view_of<T>(layer.x), layer.rows.rowptr.const_data_ptr<std::int64_t>(),
                  layer.rows.col.const_data_ptr<std::int64_t>(), run.begin, run.end, Reduction::kMean,
                  layer.mean.mutable_data_ptr<T>());
  torch::Tensor out = run.of(layer.out);
  at::addmm_out(out, layer.weights.bias, run.of(layer.mean), layer.weights.neighbours.t());
  out.addmm_(run.of(layer.x), layer.weights.self.t());
  if (!layer.relu) return;
  relu_dropout(view_of<T>(layer.out), rule, static_cast<T>(layer.scale), run.begin, run.end,
               layer.out.mutable_data_ptr<T>());
}

/// Gradients of the weights, over some of the runs. Transposed: BLAS is faster with the longer side in rows.
struct WeightSums {
  torch::Tensor neighbours, self;  // [in, out]
  torch::Tensor bias;              // [out]

  explicit WeightSums(const Layer& layer)
      : neighbours(torch::zeros_like(layer.weights.neighbours.t(), torch::MemoryFormat::Contiguous)),
        self(torch::zeros_like(neighbours)),
        bias(torch::zeros_like(layer.weights.bias)) {}
  void add(const WeightSums& other) {
    neighbours.add_(other.neighbours);
    self.add_(other.self);
    bias.add_(other.bias);
  }
};

/// Gradients of what the layer read.
struct InputGradients {
  torch::Tensor mean;  // [rows, in], each row divided by its degree
  torch::Tensor x;     // [sources, in]
};

template <class T>
void divide_by_degree(const CompressedRows& rows, const Run& run, const torch::Tensor& matrix) {
  const std::int64_t* rowptr = rows.rowptr.const_data_ptr<std::int64_t>();
  const std::int64_t width = matrix.size(1);
  T* values = matrix.mutable_data_ptr<T>();
  for (std::int64_t row = run.begin; row < run.end; ++row) {
    const std::int64_t degree = rowptr[row + 1] - rowptr[row];
    if (degree < 2) continue;
    const T share = T{1} / static_cast<T>(degree);
    for (std::int64_t f = 0; f < width; ++f) values[row * width + f] *= share;
  }
}

template <class T>
void backward_run(const Layer& layer, const torch::Tensor& gradient, const Run& run,
                  const torch::Tensor& scratch, WeightSums& sums, const InputGradients& input) {
  const torch::Tensor passed = scratch.narrow(0, 0, run.end - run.begin);
  relu_dropout_backward(view_of<T>(gradient), layer.relu ? layer.out.const_data_ptr<T>() : nullptr,
                        static_cast<T>(layer.scale), run.begin, run.end, passed.mutable_data_ptr<T>(),
                        sums.bias.mutable_data_ptr<T>());
  sums.neighbours.addmm_(run.of(layer.mean).t(), passed);
  sums.self.addmm_(run.of(layer.x).t(), passed);
  if (!input.x.defined()) return;
  torch::Tensor mean = run.of(input.mean), x = run.of(input.x);
  at::mm_out(mean, passed, layer.weights.neighbours);
  at::mm_out(x, passed, layer.weights.self);
  divide_by_degree<T>(layer.rows, run, input.mean);
}

template <class T>
WeightSums backward_runs(const Layer& layer, const torch::Tensor& gradient, const InputGradients& input) {
  const Runs runs = layer.runs();
  const std::int64_t groups = runs.groups();
  std::vector<std::optional<WeightSums>> sums(static_cast<std::size_t>(groups));
  for_each(groups, 1, [&](std::int64_t begin, std::int64_t end) {
    const torch::Tensor scratch = torch::empty({runs.rows_per_run, gradient.size(1)}, gradient.options());
    for (std::int64_t group = begin; group < end; ++group) {
      WeightSums& sum = sums[static_cast<std::size_t>(group)].emplace(layer);
      for (std::int64_t i = runs.count() * group / groups; i < runs.count() * (group + 1) / groups; ++i)
        backward_run<T>(layer, gradient, runs[i], scratch, sum, input);
    }
  });
  for (std::size_t group = 1; group < sums.size(); ++group) sums[0]->add(*sums[group]);
  return *sums[0];
}

/// Adds to each source what its edges send back.
template <class T>
void scatter(const CompressedRows& rows, const InputGradients& input) {
  const CompressedRows transposed = rows.transposed(input.x.size(0));
  const auto reduce = [&](std::int64_t begin, std::int64_t end, Reduction reduction) {
    reduce_segments(view_of<T>(input.mean), transposed.rowptr.const_data_ptr<std::int64_t>(),
                    transposed.col.const_data_ptr<std::int64_t>(), begin, end, reduction,
                    input.x.mutable_data_ptr<T>());
  };
  const std::int64_t computed = rows.num_rows();  // these have got the share of W_r already
  for_each(input.x.size(0), kGatherGrain, [&](std::int64_t begin, std::int64_t end) {
    reduce(std::min(begin, computed), std::min(end, computed), Reduction::kSumOnto);
    reduce(std::max(begin, computed), std::max(end, computed), Reduction::kSum);
  });
}

struct SageLayer : torch::autograd::Function<SageLayer> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& neighbours, const torch::Tensor& bias,
                               const torch::Tensor& self, const CompressedRows& rows,
                               const Activation& activation) {
    Layer layer{.rows = rows,
                .weights = {neighbours, bias, self},
                .x = x.stride(1) == 1 ? x : x.contiguous(),
                .mean = pooled_tensor({rows.num_rows(), x.size(1)}, x.scalar_type()),
                .out = pooled_tensor({rows.num_rows(), self.size(0)}, x.scalar_type()),
                .scale = 1 / (1 - activation.drop),
                .relu = activation.relu};
    const DropRule rule = next_drop_rule(activation.drop);
    const Runs runs = layer.runs();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sage_layer", [&] {
      for_each(runs.count(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) forward_run<scalar_t>(layer, runs[i], rule);
      });
    });
    context->save_for_backward(
        {rows.rowptr, rows.col, neighbours, bias, self, layer.x, layer.mean, layer.out});
    context->saved_data["scale"] = layer.scale;
    context->saved_data["relu"] = layer.relu;
    return layer.out;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Layer layer{.rows = {saved[0], saved[1], {}},
                      .weights = {saved[2], saved[3], saved[4]},
                      .x = saved[5],
                      .mean = saved[6],
                      .out = saved[7],
                      .scale = context->saved_data["scale"].toDouble(),
                      .relu = context->saved_data["relu"].toBool()};
    InputGradients input;
    if (context->needs_input_grad(0)) {
      input.mean = pooled_tensor(layer.mean.sizes(), layer.x.scalar_type());
      input.x = pooled_tensor(layer.x.sizes(), layer.x.scalar_type());
    }
    torch::autograd::tensor_list result(6);
    AT_DISPATCH_FLOATING_TYPES(layer.x.scalar_type(), "sage_layer_backward", [&] {
      const WeightSums sums = backward_runs<scalar_t>(layer, gradients[0].contiguous(), input);
      result[1] = sums.neighbours.t().contiguous();
      result[2] = sums.bias;
      result[3] = sums.self.t().contiguous();
      if (input.x.defined()) scatter<scalar_t>(layer.rows, input);
    });
    result[0] = input.x;
    return result;
  }
};

}  // namespace

torch::Tensor sage_layer(const torch::Tensor& x, const CompressedRows& rows, const SageWeights& weights,
                         const Activation& activation) {
  if (!fused_layers_take(x)) return composed_sage_layer(x, rows, weights, activation);
  return SageLayer::apply(x, weights.neighbours, weights.bias, weights.self, rows, activation);
}

torch::Tensor composed_sage_layer(const torch::Tensor& x, const CompressedRows& rows,
                                  const SageWeights& weights, const Activation& activation) {
  const torch::Tensor out = torch::linear(composed_mean(x, rows), weights.neighbours, weights.bias) +
                            torch::linear(x.narrow(0, 0, rows.num_rows()), weights.self);
  return activation.relu ? relu_dropout(out, activation.drop) : out;
}

}  // namespace hopfeed
