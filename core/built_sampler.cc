// See built_sampler.h.
#include "core/built_sampler.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "core/error.h"

namespace hopfeed {

void name_errors(const std::string& sampler, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalid, fmt::format("sampler '{}' failed: {}", sampler, error.what()));
  } catch (...) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("sampler '{}' failed with something that is no std::exception", sampler));
  }
}

BuiltSampler::BuiltSampler(std::string name, const Dataset& dataset, const BatchOptions& options,
                           std::unique_ptr<CustomSampler> custom)
    : name_(std::move(name)), builder_(dataset, options), custom_(std::move(custom)) {}

const Sample& BuiltSampler::sample(const SampleRequest& request) {
  builder_.begin(request);
  name_errors(name_, [&] { custom_->sample(request, builder_); });
  const Sample& sample = builder_.finish();
  if (sample.nodes[0].per_hop.size() != num_hops() + 1) {
    throw Error(ErrorCode::kInvalid, fmt::format("sampler '{}' ended {} hops and says that it has {}", name_,
                                                 sample.nodes[0].per_hop.size() - 1, num_hops()));
  }
  return sample;
}

SampleBounds BuiltSampler::bounds(int seed_type, std::int64_t seeds) const {
  return custom_->bounds(seed_type, seeds);
}

}  // namespace hopfeed
