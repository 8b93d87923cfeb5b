// See loader_parts.h.
#include "stream/loader_parts.h"

#include "core/sampler/sampler_plugin.h"
#include "peers/open_partitions.h"
#include "stream/loader_source.h"

namespace hopfeed {

LoaderParts open_parts(const LoaderOptions& options, HugePages huge_pages,
                       const std::function<void(const std::string& plugin)>& load_plugin) {
  for (const std::string& plugin : options.execution.plugins) load_plugin(plugin);
  check_batch_options(options.batch);
  LoaderParts parts;
  parts.dataset = open_partitions(options.dataset, options.execution.partitions, PeersAt::kKnown, huge_pages);
  parts.source = loader_source(options, *parts.dataset);
  parts.spec = loader_spec(options, *parts.dataset, *parts.source);
  return parts;
}

LoaderParts open_parts(const LoaderOptions& options) {
  return open_parts(options, options.execution.huge_pages, load_sampler_plugin);
}

}  // namespace hopfeed
