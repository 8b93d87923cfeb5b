// Where the files of a dataset lie: the table at the head of dataset_meta.h.
#include <fmt/format.h>

#include <filesystem>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {
namespace {
std::string edge_file(int partition, const EdgeTypeMeta& edge, const std::string& name) {
  return part_folder(partition) + "/edges/" + edge.folder() + "/" + name + ".npy";
}
std::string link_file(const EdgeTypeMeta& edge, const std::string& split, const char* name) {
  return "edge_splits/" + edge.folder() + "/" + split + "/" + name + ".npy";
}
std::string id_file(int partition, const NodeTypeMeta& node, const char* name) {
  return part_folder(partition) + "/ids/" + node.name + "/" + name + ".npy";
}
}  // namespace

std::string part_folder(int partition) {
  return partition < 0 ? part_folder(halo_of(partition)) + "/halo" : fmt::format("part-{:04d}", partition);
}
std::string halo_places_path(int partition, const NodeTypeMeta& node) {  // no attribute can have that name
  return part_folder(halo_of(partition)) + "/places/" + node.name + ".npy";
}
std::string rows_path(int partition, const EdgeTypeMeta& edge) { return edge_file(partition, edge, "rows"); }
std::string indices_path(int partition, const EdgeTypeMeta& edge) {
  return edge_file(partition, edge, "indices");
}
std::string edge_ids_path(int partition, const EdgeTypeMeta& edge) {
  return edge_file(partition, edge, "edge_ids");
}
std::string edge_attr_path(int partition, const EdgeTypeMeta& edge, const std::string& attr) {
  return edge_file(partition, edge, "attrs/" + attr);
}
std::string alias_path(int partition, const EdgeTypeMeta& edge, const std::string& weight) {
  return edge_file(partition, edge, "alias/" + weight);
}
std::string time_order_path(int partition, const EdgeTypeMeta& edge, const std::string& time) {
  return edge_file(partition, edge, "time_order/" + time);
}
std::string times_path(int partition, const EdgeTypeMeta& edge, const std::string& time) {
  return edge_file(partition, edge, "times/" + time);
}
std::string time_codes_path(int partition, const EdgeTypeMeta& edge, const std::string& time) {
  return edge_file(partition, edge, "time_codes/" + time);
}
std::string time_bounds_path(const EdgeTypeMeta& edge, const std::string& time) {
  return "time_bounds/" + edge.folder() + "/" + time + ".npy";
}
std::string time_indices_path(int partition, const EdgeTypeMeta& edge, const std::string& time) {
  return edge_file(partition, edge, "time_indices/" + time);
}
std::string by_id_path(int partition, const EdgeTypeMeta& edge) {
  return edge_file(partition, edge, "by_id");
}
std::string original_ids_path(int partition, const NodeTypeMeta& node) {
  return part_folder(partition) + "/nodes/" + node.name + "/original_ids.npy";
}
std::string attr_path(int partition, const NodeTypeMeta& node, const std::string& attr) {
  return part_folder(partition) + "/nodes/" + node.name + "/" + attr + ".npy";
}
std::string hotness_path(int partition, const NodeTypeMeta& node) {
  return part_folder(partition) + "/nodes/" + node.name + "/hotness.npy";
}
std::string remote_rows_path(int partition, const NodeTypeMeta& node) {  // no attribute can have that name
  return part_folder(partition) + "/remote_rows/" + node.name + ".npy";
}
std::string new_ids_path(const NodeTypeMeta& node) { return "nodes/" + node.name + "/new_ids.npy"; }
std::string all_original_ids_path(const NodeTypeMeta& node) {
  return "nodes/" + node.name + "/original_ids.npy";
}
std::string keys_path(const NodeTypeMeta& node) { return "keys/" + node.name + "/keys.npy"; }
std::string key_offsets_path(const NodeTypeMeta& node) { return "keys/" + node.name + "/offsets.npy"; }
bool is_keys_path(const std::string& path) { return path.starts_with("keys/"); }
std::string split_path(const NodeTypeMeta& node, const std::string& split) {
  return "splits/" + node.name + "/" + split + ".npy";
}
bool is_halo_path(const std::string& path) {
  return path.starts_with("part-") && path.find('/') == path.find("/halo/");
}
bool is_derived_path(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string folder = file.parent_path().filename().string();
  if (path.starts_with("time_bounds/") || is_halo_path(path)) return true;
  if (path.starts_with("part-") && path.find('/') == path.find("/ids/"))
    return file.filename() == "remote.npy" || file.filename() == "buckets.npy";
  if (path.find("/edges/") == std::string::npos || folder == "attrs") return false;
  for (const char* tables : {"alias", "time_order", "times", "time_codes", "time_indices"})
    if (folder == tables) return true;
  return file.filename() == "by_id.npy";
}
std::string new_ids_shard_path(int partition, const NodeTypeMeta& node) {
  return id_file(partition, node, "new_ids");
}
std::string remote_ids_path(int partition, const NodeTypeMeta& node) {
  return id_file(partition, node, "remote");
}
std::string id_buckets_path(int partition, const NodeTypeMeta& node) {
  return id_file(partition, node, "buckets");
}
std::string split_shard_path(int partition, const NodeTypeMeta& node, const std::string& split) {
  return part_folder(partition) + "/" + split_path(node, split);
}
std::string link_pairs_shard_path(int partition, const EdgeTypeMeta& edge, const std::string& split) {
  return part_folder(partition) + "/" + link_file(edge, split, "pairs");
}
std::string link_labels_shard_path(int partition, const EdgeTypeMeta& edge, const std::string& split) {
  return part_folder(partition) + "/" + link_file(edge, split, "labels");
}
std::string link_times_shard_path(int partition, const EdgeTypeMeta& edge, const std::string& split) {
  return part_folder(partition) + "/" + link_file(edge, split, "times");
}
std::string link_pairs_path(const EdgeTypeMeta& edge, const std::string& split) {
  return link_file(edge, split, "pairs");
}
std::string link_labels_path(const EdgeTypeMeta& edge, const std::string& split) {
  return link_file(edge, split, "labels");
}
std::string link_times_path(const EdgeTypeMeta& edge, const std::string& split) {
  return link_file(edge, split, "times");
}

bool DatasetMeta::has_labels(const EdgeTypeMeta& edge, const std::string& split) const {
  return files.contains(sharded_ids ? link_labels_shard_path(0, edge, split) : link_labels_path(edge, split));
}
bool DatasetMeta::has_times(const EdgeTypeMeta& edge, const std::string& split) const {
  return files.contains(sharded_ids ? link_times_shard_path(0, edge, split) : link_times_path(edge, split));
}

}  // namespace hopfeed
