// Makes the core's make_sampler() know the device sampler: the core includes nothing of this folder. Programs
// and streams that sample say so before they make a sampler.
#pragma once

namespace hopfeed {

/// From now on ExecutionOptions::graph_mode can be uva or cuda, as far as there is a GPU.
void offer_gpu_sampling();

}  // namespace hopfeed
