// The fields of BatchOptions, each said once, and their line of JSON.
#include "core/base/field_json.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"

namespace hopfeed {

void WalkOptions::visit(FieldVisitor& fields) {
  fields.whole({.name = "walk.length",
                .help = "With `sampler` walk: steps of a walk",
                .option = "--walk-length",
                .keyword = "walk_length",
                .group = "samplers"},
               length, {1, kMaxWalkLength});
  fields.whole({.name = "walk.per_seed",
                .help = "With `sampler` walk: walks from each seed",
                .option = "--walks-per-seed",
                .keyword = "walks_per_seed",
                .group = "samplers"},
               per_seed, {1, kMaxWalksPerSeed});
  fields.real({.name = "walk.p",
               .help = "With `sampler` walk: node2vec's return parameter",
               .option = "--walk-p",
               .keyword = "walk_p",
               .group = "samplers"},
              p);
  fields.real({.name = "walk.q",
               .help = "With `sampler` walk: node2vec's in-out parameter",
               .option = "--walk-q",
               .keyword = "walk_q",
               .group = "samplers"},
              q);
  fields.texts(
      {.name = "walk.metapath",
       .help = "With `sampler` walk: edge types of the steps, in turn and again from the first",
       .option_help = "With `sampler` walk: edge types of the steps, in turn (built_from,rev_built_from)",
       .group = "samplers"},
      metapath);
}

namespace {

void visit_draws(BatchOptions& batch, FieldVisitor& fields) {
  fields.flag({.name = "replace", .help = "Draw with replacement", .group = "draws"}, batch.replace);
  fields.text(
      {.name = "weight",
       .help = "Draw in proportion to this edge attribute, exactly; an edge of weight zero never comes",
       .group = "draws"},
      batch.weight);
  fields.flag(
      {.name = "labor",
       .help = "Layer-dependent sampling (LABOR): a neighbour comes with probability fanout / degree, and "
               "destinations take the same ones where they can",
       .group = "draws",
       .in_json = InJson::kOrNull},
      batch.labor);
  fields.whole(
      {.name = "labor_seeds",
       .help = "With `labor`: batches within so many positions of the epoch (batch size times batches) "
               "draw alike, and are faster for it",
       .option = "",
       .in_json = InJson::kOrNull},
      batch.labor_seeds, {0, INT64_MAX});
  fields.choice(
      {.name = "subgraph",
       .help = "Edges between the nodes of a batch: those that were drawn, these and their reverses, or "
               "all; hops are told of the first alone",
       .group = "draws",
       .in_json = InJson::kOrNull},
      {.names = {"directional", "bidirectional", "induced"},
       .get = [&batch] { return to_string(batch.subgraph); },
       .set = [&batch](const std::string& name) { batch.subgraph = subgraph_from(name); }});
  fields.flag(
      {.name = "keep_orig_edges",
       .help = "With `subgraph` bidirectional: the drawn edges too (_orig_edge_index), and their hops",
       .group = "draws",
       .in_json = InJson::kOrNull},
      batch.keep_orig_edges);
  fields.flag({.name = "disjoint", .help = "A tree of its own for each seed: field batch", .group = "draws"},
              batch.disjoint);
}

void visit_times(BatchOptions& batch, FieldVisitor& fields) {
  fields.text(
      {.name = "time",
       .help = "Only neighbours no later than their seed, by this attribute of edges or else of source "
               "nodes; always disjoint",
       .group = "draws"},
      batch.time);
  fields.text({.name = "seed_time",
               .help = "Attribute of the seeds that is their time; default: that of `time`",
               .group = "draws"},
              batch.seed_time);
  fields.choice(
      {.name = "temporal_strategy",
       .help = "Which neighbours of the past: drawn uniformly, or the last",
       .group = "draws"},
      {.names = {"uniform", "last"},
       .get = [&batch] { return to_string(batch.temporal_strategy); },
       .set = [&batch](const std::string& name) { batch.temporal_strategy = temporal_strategy_from(name); }});
  fields.whole({.name = "time_window",
                .help = "Only neighbours later than the seed's time minus this; 0: however early",
                .group = "draws"},
               batch.time_window, {0, INT64_MAX});
  fields.optional_whole(
      {.name = "time_start",
       .help = "With `time`: only neighbours from this time on, inclusive; the later start holds "
               "where `time_window` is given too",
       .group = "draws",
       .in_json = InJson::kWhereSet},
      batch.time_start);
}

void visit_contents(BatchOptions& batch, FieldVisitor& fields) {
  fields.all_or_texts({.name = "attrs",
                       .help = "Node attributes to gather; an empty list: none",
                       .option_help = "Node attributes to gather (x,y), or all; '' for none",
                       .group = "contents"},
                      batch.attrs);
  fields.texts({.name = "edge_attrs",
                .help = "Edge attributes to gather",
                .option_help = "Edge attributes to gather (weight,time)",
                .group = "contents"},
               batch.edge_attrs);
  fields.flag({.name = "edge_ids",
               .help = "Carry the original position of each edge: field e_id, a third of the memory traffic",
               .option = "--e-id",
               .group = "contents"},
              batch.edge_ids);
  fields.flag({.name = "dataset_ids",
               .help = "Carry the id of each node in the dataset's own order, by partition: field dataset_id",
               .group = "contents"},
              batch.dataset_ids);
}

/// Members of a new struct hold the defaults.
VisitFields fields_of(BatchOptions& options) {
  return [&options](FieldVisitor& fields) { options.visit(fields); };
}

}  // namespace

void BatchOptions::visit(FieldVisitor& fields) {
  fields.fanouts({.name = "fanouts",
                  .help = "Neighbours drawn per node, hop by hop from the seeds; -1 takes all, 0 none",
                  .group = "fanouts"},
                 fanouts);
  fields.typed_fanouts({.name = "edge_fanouts",
                        .help = "Fanouts of single edge types; the others take `fanouts`",
                        .option_help = "Fanouts of edge types, by name or by src__name__dst "
                                       "(depends=15,10;recommends=5,0); others take `fanouts`",
                        .group = "edge fanouts"},
                       edge_fanouts);
  visit_draws(*this, fields);
  visit_times(*this, fields);
  fields.text({.name = "sampler",
               .help = "Who samples: neighbor, walk, cluster, or what a plugin brings",
               .group = "samplers",
               .in_json = InJson::kOrNull},
              sampler);
  fields.object({.name = "walk", .help = "", .in_json = InJson::kOrNull},
                [this](FieldVisitor& inner) { walk.visit(inner); });
  fields.text({.name = "cluster",
               .help = "With `sampler` cluster: the node attribute that numbers clusters",
               .group = "samplers",
               .in_json = InJson::kOrNull},
              cluster);
  fields.text({.name = "sampler_options",
               .help = "Text for a plugin's sampler",
               .group = "samplers",
               .in_json = InJson::kOrNull},
              sampler_options);
  fields.object({.name = "link", .help = "", .in_json = InJson::kOrNull},
                [this](FieldVisitor& inner) { link.visit(inner); });
  visit_contents(*this, fields);
}

std::string BatchOptions::to_json() const {
  BatchOptions told = *this, unset;
  told.disjoint = trees();  // times make it so: one text for what gives one batch
  return json_text(fields_to_json(fields_of(told), fields_of(unset)));  // keys sorted, no spaces
}

BatchOptions BatchOptions::from_json(const std::string& text) {
  BatchOptions options;
  fields_from_json(parse_json(text), "the batch",
                   fields_of(options));  // that of a spec, or of another machine
  options.validate();
  return options;
}

}  // namespace hopfeed
