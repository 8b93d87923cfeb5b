// A picker gives neighbours of rows. This is the contract between the pipeline of row_pipeline.h and the
// pickers.
//
//   look(row, part, begin)   the row is known: how many neighbours it may give, and a prefetch of what
//                            draw() or pick() read
//   draw(group)              once for each group, behind its last look(), kStepsToDraw groups later
//   pick(group, row, emit)   calls emit(count, place_of_j, position_of_j) once, in the order of the draws:
//                            places are of sources, counted from row.index_at; positions are in the row, or
//                            in row.order_at where there is one
//
// Where some of a row's edges are to count as absent (excluding_picker.h), it draws from fewer places.
#pragma once
#include <concepts>
#include <cstdint>

#include "core/draws/drawn_rows.h"
#include "core/draws/left_out.h"

namespace hopfeed {

/// AnyEmit is an `emit` that takes whatever a picker calls it with.
struct AnyEmit {
  template <class Place, class Position>
  void operator()(std::uint64_t /*count*/, Place /*place*/, Position /*position*/) const {}
};

/// A picker has few groups in flight: a draw comes one step behind the look at most.
template <class P>
concept Picker = std::copy_constructible<P> && P::kStepsToDraw <= 1 &&
                 requires(P& picker, DrawnRow& row, DrawnGroup& group, const DrawnRow& drawn,
                          const DrawnGroup& all) {
  picker.look(row, int{}, std::int64_t{});
  picker.draw(group);
  picker.pick(all, drawn, AnyEmit{});
};

/// It has close_in(group), called once for each group, behind its last look(): it reads what that has
/// prefetched, and prefetches more for draw().
template <class P>
concept ClosingInPicker = Picker<P> && requires(P& picker, DrawnGroup& group) {
  picker.close_in(group);
};

/// It has take_population(row, n), called between look() and draw(): the row has n places to draw from, not
/// all of its degree. most_scratch(bounds) says what it takes of PickScratch at most.
template <class P>
concept WholePicker = Picker<P> && requires(P& picker, DrawnRow& row, const PickBounds& bounds) {
  picker.take_population(row, std::uint64_t{});
  { P::most_scratch(bounds) } -> std::same_as<PickScratch::Most>;
};

/// Such a picker's draw() has to find out first what a row's population is: it is search(group) and
/// choose(group), one after the other.
template <class P>
concept SearchingPicker = WholePicker<P> && requires(P& picker, DrawnGroup& group) {
  picker.search(group);
  picker.choose(group);
};

/// Such a picker's draw() copies what rows give; drop(row, left_out) takes what is to be left out from the
/// copies.
template <class P>
concept CopyingPicker = WholePicker<P> && requires(P& picker, DrawnRow& row, const LeftOut& left_out) {
  picker.drop(row, left_out);
};

}  // namespace hopfeed
