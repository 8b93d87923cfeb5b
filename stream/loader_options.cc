// See loader_options.h.
#include "stream/loader_options.h"

#include "core/base/field_visitor.h"

namespace hopfeed {
namespace {

/// What seeds there are; programs read arrays from files.
void visit_seeds(LoaderOptions& options, FieldVisitor& fields) {
  constexpr const char* kArray = "ArrayLike";
  fields.text({.name = "split", .help = "Seeds: this split of the dataset", .group = "seeds"}, options.split);
  fields.text({.name = "node_type", .help = "Node type of the seeds; default: the first", .group = "seeds"},
              options.node_type);
  fields.special(
      {.name = "seeds", .help = "In place of a split: original node ids, int64 [S]; repeats are allowed"},
      kArray);
  fields.special({.name = "seed_mask",
                  .help = "In place of a split: the nodes that are set, bool [N]",
                  .option = "--seeds"},
                 kArray);
  fields.special({.name = "seed_times", .help = "The time of each seed, in place of an attribute: int64 [S]"},
                 kArray);
  fields.special({.name = "seed_weights",
                  .help = "Draw the seeds of an epoch in proportion to these, with replacement: float64 [S]"},
                 kArray);
  fields.special({.name = "links.split",
                  .help = "With `link`: a split of the edge type; default: train",
                  .option = "--links",
                  .keyword = "link_split"},
                 "str");
  fields.special({.name = "links.pairs",
                  .help = "With `link`: source and destination of each, int64 [P, 2]",
                  .option = "--links",
                  .keyword = "links"},
                 kArray);
  fields.special({.name = "links.labels",
                  .help = "With `links.pairs`: a label for each, int64 [P]",
                  .option = "--labels",
                  .keyword = "link_labels"},
                 kArray);
  fields.special({.name = "links.times",
                  .help = "With `links.pairs`: the time of each, int64 [P]",
                  .option = "--link-times",
                  .keyword = "link_times"},
                 kArray);
}

}  // namespace

void LoaderOptions::visit(FieldVisitor& fields) {
  batch.visit(fields);
  visit_seeds(*this, fields);
  fields.unsigned_whole({.name = "seed", .help = "Seed of everything random", .group = "seed"}, seed);
  deal.visit(fields);
  fields.flag({.name = "shuffle",
               .help = "A new order in each epoch; without it that of the split",
               .option = "--no-shuffle",
               .option_help = "Seeds in the order of the split",
               .group = "deal"},
              shuffle);
  execution.visit(fields);
}

}  // namespace hopfeed
