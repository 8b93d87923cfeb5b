// See hop_expansion.h.
#include "core/hop_expansion.h"

namespace hopfeed {

template void expand_hop(const HopRows&, const ExcludingPicker<UniformPicker>&);
template void expand_hop(const HopRows&, const ExcludingPicker<WeightedPicker>&);
template void expand_hop(const HopRows&, const ExcludingPicker<TemporalPicker>&);
template void expand_hop(const HopRows&, const ExcludingPicker<LaborPicker>&);

}  // namespace hopfeed
