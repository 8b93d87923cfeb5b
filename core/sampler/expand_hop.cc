// See expand_hop.h.
#include "core/sampler/expand_hop.h"

namespace hopfeed {

template void expand_hop(const HopRows&, const ExcludingPicker<UniformPicker>&);
template void expand_hop(const HopRows&, const ExcludingPicker<WeightedPicker>&);
template void expand_hop(const HopRows&, const ExcludingPicker<TemporalPicker>&);
template void expand_hop(const HopRows&, const ExcludingPicker<LaborPicker>&);

}  // namespace hopfeed
