// Finds attributes of a graph that is no dataset yet, by name and as a dataset's manifest tells of them.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// Returns the RawAttr or RawEdgeAttr of that name; null where there is none.
template <class Attr>
const Attr* find_attr(const std::vector<Attr>& attrs, const std::string& name) {
  const auto found = std::ranges::find(attrs, name, &Attr::name);
  return found == attrs.end() ? nullptr : &*found;
}

template <class Attr>
AttrMeta meta_of(const Attr& attr) {
  return {.name = attr.name, .type = attr.type, .shape = attr.shape};
}

}  // namespace hopfeed
