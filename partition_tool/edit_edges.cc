// See edit_edges.h.
#include "partition_tool/edit_edges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/error.h"
#include "partition_tool/read_dataset.h"
#include "partition_tool/rearranged_edges.h"

namespace hopfeed {
namespace {

bool is_square(const EdgeTypeMeta& edge) { return edge.src == edge.dst; }

/// One tool at work: what its edge types share.
class Editor {
 public:
  Editor(const Dataset& dataset, const EditOptions& options, const Progress& progress)
      : dataset_(dataset),
        options_(options),
        progress_(progress),
        edited_{.graph = read_dataset(dataset, options.threads, progress), .types = {}} {}

  const Dataset& dataset() const { return dataset_; }
  const DatasetMeta& meta() const { return dataset_.meta(); }
  RawGraph& graph() { return edited_.graph; }
  EditedGraph finish() { return std::move(edited_); }

  /// Rows of edge type `type` made by `make`, whose edge ids are below `id_bound`; the attributes are those
  /// of `of`.
  RawEdges make_type(const RawEdges& like, int of, std::int64_t id_bound, const char* step,
                     const MakeEntries& make, const std::map<std::string, std::vector<std::byte>>& fill) {
    RawEdges made = like;
    rearrange({.dataset = dataset_,
               .edge_type = of,
               .num_rows = graph().nodes[like.dst_type].count,
               .num_sources = graph().nodes[like.src_type].count,
               .id_bound = id_bound,
               .threads = options_.threads,
               .step = step,
               .fill = fill},
              make, progress_, made);
    return made;
  }

  /// Replaces an edge type.
  void replace(int type, std::int64_t id_bound, const char* step, const MakeEntries& make,
               const std::map<std::string, std::vector<std::byte>>& fill = {}) {
    RawEdges& edges = graph().edges[type];
    const RawEdges like{.src_type = edges.src_type,
                        .dst_type = edges.dst_type,
                        .rel = edges.rel,
                        .csc = {},
                        .attrs = {},
                        .weights = edges.weights,
                        .times = edges.times,
                        .by_id = edges.by_id,
                        .rev_of = edges.rev_of,
                        .splits = edges.splits};
    RawEdges made = make_type(like, type, id_bound, step, make, fill);
    edited_.types.push_back({.edge_type = meta().edge_types[type].folder(),
                             .before = edges.csc.num_edges(),
                             .after = made.csc.num_edges()});
    edges = std::move(made);
  }

  StoredRows rows(int type) { return {dataset_, type, graph().edges[type].csc}; }
  const EditOptions& options() const { return options_; }
  const Progress& progress() const { return progress_; }
  void note(EditedType type) { edited_.types.push_back(std::move(type)); }

 private:
  const Dataset& dataset_;
  const EditOptions& options_;
  const Progress& progress_;
  EditedGraph edited_;
};

/// The links that splits of an edge type hold out, {source, destination}, rising; not those to train on, nor
/// negatives.
std::vector<std::pair<std::int64_t, std::int64_t>> held_out(const Dataset& dataset, int type) {
  std::vector<std::pair<std::int64_t, std::int64_t>> held;
  for (const auto& [name, size] : dataset.meta().edge_types[type].splits) {
    if (name == "train") continue;
    const LinkSplit links = dataset.edge_split(type, name);
    for (std::int64_t i = 0; i < links.count(); ++i)
      if (links.labels.empty() || links.labels[i] != 0)
        held.emplace_back(links.pairs[2 * i], links.pairs[2 * i + 1]);
  }
  std::ranges::sort(held);
  return held;
}

[[noreturn]] void refuse_return(const EdgeTypeMeta& edge, std::int64_t source, std::int64_t destination,
                                const char* command) {
  throw Error(
      ErrorCode::kInvalid,
      fmt::format("edge type {}: the link {} -> {} is held out by an edge split, and {} would bring "
                  "it back as an edge; run it before the split, or leave the type out by --edge-types",
                  edge.folder(), source, destination, command));
}

/// Where u -> v is held out and v -> u is an edge, u -> v would be one again.
void require_none_reversed(const Dataset& dataset, int type, const StoredRows& rows) {
  std::vector<EdgeEntry> row;
  std::int64_t row_of = -1;
  for (const auto& [source, destination] : held_out(dataset, type)) {
    if (source != row_of) {
      row.clear();
      rows.read(row_of = source, row);
      std::ranges::sort(row, {}, &EdgeEntry::source);
    }
    if (std::ranges::binary_search(row, destination, {}, &EdgeEntry::source))
      refuse_return(dataset.meta().edge_types[type], source, destination, "to-undirected");
  }
}

/// A loop may be held out too, of the type or of its reverse.
void require_no_loop_held_out(const Dataset& dataset, int type) {
  for (const int of : {type, dataset.meta().reverse_edge_type(type)}) {
    if (of < 0) continue;
    for (const auto& [source, destination] : held_out(dataset, of))
      if (source == destination)
        refuse_return(dataset.meta().edge_types[of], source, destination, "add-self-loops");
  }
}

/// Each pair both ways and once.
void merge_reverse(Editor& editor, int type) {
  const StoredRows rows = editor.rows(type);
  require_none_reversed(editor.dataset(), type, rows);
  const std::int64_t num_edges = rows.csc().num_edges();
  const ReversedRows reversed(rows, rows.csc().num_rows(), editor.options().threads, editor.progress());
  editor.replace(type, 2 * num_edges, "Merging edges with their reverse",
                 [&](std::int64_t v, std::vector<EdgeEntry>& out) {
                   thread_local std::vector<std::int64_t> scratch;
                   rows.read(v, out);
                   const std::size_t own = out.size();
                   reversed.read(v, out);
                   for (std::size_t i = own; i < out.size(); ++i) out[i].id += num_edges;
                   keep_first_of_pairs(out, scratch);
                 });
}

/// A type beside this one.
void add_reverse(Editor& editor, int type) {
  const EdgeTypeMeta& edge = editor.meta().edge_types[type];
  RawGraph& graph = editor.graph();
  RawEdges like{.src_type = graph.edges[type].dst_type,
                .dst_type = graph.edges[type].src_type,
                .rel = "rev_" + edge.rel,
                .csc = {},
                .attrs = {},
                .weights = edge.weights,
                .times = {},
                .by_id = edge.has_by_id,
                .rev_of = edge.folder()};
  check_name(like.rel, "reverse relation");
  if (std::ranges::any_of(graph.edges, [&](const RawEdges& other) {
        return graph.edge_name(other) == graph.edge_name(like);
      }))
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("there is an edge type {} already, and nothing says that it is the reverse of {}; "
                    "leave {} out by --edge-types",
                    graph.edge_name(like), edge.folder(), edge.folder()));
  // A time of the source nodes is one of other nodes now, where these have it.
  const auto& own = edge.attrs;
  const auto& of_sources = editor.meta().node_types[like.src_type].attrs;
  std::ranges::copy_if(edge.times, std::back_inserter(like.times), [&](const std::string& time) {
    return find_attr(own, time) || has_time(of_sources, time);
  });
  const StoredRows rows = editor.rows(type);
  const std::int64_t num_sources = graph.nodes[graph.edges[type].src_type].count;
  const ReversedRows reversed(rows, num_sources, editor.options().threads, editor.progress());
  RawEdges made =
      editor.make_type(like, type, rows.csc().num_edges(), "Turning edges around",
                       [&](std::int64_t v, std::vector<EdgeEntry>& out) { reversed.read(v, out); }, {});
  editor.note({.edge_type = graph.edge_name(made), .before = 0, .after = made.csc.num_edges()});
  graph.edges.push_back(std::move(made));
}

template <class T>
std::vector<std::byte> numbers(std::int64_t count, T value) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  return bytes;
}

template <class T>
std::vector<std::byte> parse_fill(const AttrMeta& attr, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Error(ErrorCode::kInvalid,
                fmt::format("--fill {}={} is no number that fits {}", attr.name, text, to_string(attr.type)));
  return numbers(attr.row_elements(), value);
}

std::vector<std::byte> fill_of(const AttrMeta& attr, const std::string& text) {
  switch (attr.type) {
    case ElementType::kFloat32:
      return parse_fill<float>(attr, text);
    case ElementType::kFloat64:
      return parse_fill<double>(attr, text);
    case ElementType::kInt32:
      return parse_fill<std::int32_t>(attr, text);
    case ElementType::kInt64:
      return parse_fill<std::int64_t>(attr, text);
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("--fill {}: attributes of type {} cannot be filled in; convert it to int32, "
                              "int64, float32 or float64",
                              attr.name, to_string(attr.type)));
  }
}

/// What the attributes of new edges are.
std::map<std::string, std::vector<std::byte>> fills_of(const EdgeTypeMeta& edge,
                                                       const SelfLoopOptions& options) {
  std::map<std::string, std::vector<std::byte>> fills;
  for (const AttrMeta& attr : edge.attrs) {
    const auto given = options.fill.find(attr.name);
    if (given == options.fill.end())
      throw Error(ErrorCode::kInvalid,
                  fmt::format("edge type {} has the attribute '{}': say what loops have by --fill {}=NUMBER",
                              edge.folder(), attr.name, attr.name));
    fills[attr.name] = fill_of(attr, given->second);
  }
  return fills;
}

void add_loops(Editor& editor, int type, const SelfLoopOptions& options) {
  const StoredRows rows = editor.rows(type);
  const std::int64_t num_edges = rows.csc().num_edges();
  editor.replace(
      type, num_edges + rows.csc().num_rows(), "Adding loops",
      [&](std::int64_t v, std::vector<EdgeEntry>& out) {
        rows.read(v, out);
        if (std::ranges::find(out, v, &EdgeEntry::source) == out.end())
          out.push_back({.source = v, .id = num_edges + v, .place = -1});
      },
      fills_of(editor.meta().edge_types[type], options));
}

/// Numbers of the chosen edge types, rising; of all where none is named.
std::vector<int> chosen_types(const DatasetMeta& meta, const std::vector<std::string>& names) {
  std::vector<int> types;
  for (const std::string& name : names) types.push_back(meta.edge_type(name));
  for (int t = 0; names.empty() && t < static_cast<int>(meta.edge_types.size()); ++t) types.push_back(t);
  std::ranges::sort(types);
  if (const auto twice = std::ranges::adjacent_find(types); twice != types.end())
    throw Error(ErrorCode::kInvalid, "--edge-types names " + meta.edge_types[*twice].folder() + " twice");
  return types;
}

}  // namespace

EditedGraph to_undirected(const Dataset& dataset, const EditOptions& options, const Progress& progress) {
  const DatasetMeta& meta = dataset.meta();
  const std::vector<int> types = chosen_types(meta, options.edge_types);
  Editor editor(dataset, options, progress);
  for (const int type : types) {
    if (meta.reverse_edge_type(type) >= 0) continue;
    if (is_square(meta.edge_types[type]))
      merge_reverse(editor, type);
    else
      add_reverse(editor, type);
  }
  return editor.finish();
}

EditedGraph deduplicate(const Dataset& dataset, const EditOptions& options, const Progress& progress) {
  const std::vector<int> types = chosen_types(dataset.meta(), options.edge_types);
  Editor editor(dataset, options, progress);
  for (const int type : types) {
    const StoredRows rows = editor.rows(type);
    editor.replace(type, rows.csc().num_edges(), "Removing repeated edges",
                   [&](std::int64_t v, std::vector<EdgeEntry>& out) {
                     thread_local std::vector<std::int64_t> scratch;
                     rows.read(v, out);
                     keep_first_of_pairs(out, scratch);
                   });
  }
  return editor.finish();
}

EditedGraph add_self_loops(const Dataset& dataset, const SelfLoopOptions& options, const Progress& progress) {
  const DatasetMeta& meta = dataset.meta();
  std::vector<int> types = chosen_types(meta, options.edge_types);
  if (options.edge_types.empty())
    std::erase_if(types, [&](int type) { return !is_square(meta.edge_types[type]); });
  if (types.empty())
    throw Error(ErrorCode::kInvalid, "no edge type has both ends in one node type, so none can have loops");
  for (const auto& [name, number] : options.fill) {
    if (std::ranges::none_of(types, [&](int type) { return find_attr(meta.edge_types[type].attrs, name); }))
      throw Error(ErrorCode::kInvalid,
                  fmt::format("--fill {}={}: no edge type that gets loops has this attribute", name, number));
  }
  for (const int type : types) {
    const EdgeTypeMeta& edge = meta.edge_types[type];
    if (!is_square(edge))
      throw Error(ErrorCode::kInvalid,
                  fmt::format("edge type {} leads from one node type to another, so a node "
                              "has no edge to itself",
                              edge.folder()));
    require_no_loop_held_out(dataset, type);
    fills_of(edge, options);  // complains before anything is read
  }
  Editor editor(dataset, options, progress);
  for (const int type : types) add_loops(editor, type, options);
  return editor.finish();
}

}  // namespace hopfeed
