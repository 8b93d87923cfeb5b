// The drawing of tune_report.h: hit rate above, epoch time below, over the share of rows that are held.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "partition_tool/program/tune_report.h"

namespace hopfeed {
namespace {

constexpr const char* kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                    "#ff7f0e", "#17becf", "#7f7f7f"};
constexpr double kLeft = 70, kWidth = 500, kHeight = 260;

/// Text of another's making inside of XML.
std::string xml_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

/// One of the two drawings: values from 0 to `most` over percents.
struct Panel {
  double top = 0, most = 1;
  std::string label;
  double x(double percent) const { return kLeft + kWidth / 100 * percent; }
  double y(double value) const { return top + kHeight * (1 - value / most); }
};

std::string axes(const Panel& panel) {
  std::string out;
  const double bottom = panel.y(0);
  for (int i = 0; i <= 10; ++i) {
    const double x = panel.x(10 * i), value = panel.most * i / 10;
    out += fmt::format("<line x1='{0:.0f}' y1='{1:.0f}' x2='{0:.0f}' y2='{2:.0f}' stroke='#ddd'/>\n", x,
                       panel.top, bottom);
    out +=
        fmt::format("<text x='{:.0f}' y='{:.0f}' text-anchor='middle'>{}</text>\n", x, bottom + 16, 10 * i);
    if (i % 2 != 0) continue;
    out += fmt::format("<line x1='{0:.0f}' y1='{2:.0f}' x2='{1:.0f}' y2='{2:.0f}' stroke='#ddd'/>\n", kLeft,
                       kLeft + kWidth, panel.y(value));
    out += fmt::format("<text x='{:.0f}' y='{:.0f}' text-anchor='end'>{:.4g}</text>\n", kLeft - 8,
                       panel.y(value) + 4, value);
  }
  out += fmt::format(
      "<text x='{:.0f}' y='{:.0f}' text-anchor='middle'>rows held, % of the rows of each type</text>\n",
      kLeft + kWidth / 2, bottom + 36);
  out += fmt::format("<text transform='translate(18,{:.0f}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                     panel.top + kHeight / 2, panel.label);
  return out;
}

std::string line(const Panel& panel, const std::vector<double>& values, const char* colour) {
  std::string out = fmt::format("<polyline fill='none' stroke='{}' stroke-width='2' points='", colour);
  for (std::size_t i = 0; i < values.size(); ++i)
    out += fmt::format("{:.1f},{:.1f} ", panel.x(static_cast<double>(i)), panel.y(values[i]));
  return out + "'/>\n";
}

std::string ring(double x, double y) {
  return fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='6' fill='none' stroke='black' stroke-width='2'/>\n",
                     x, y);
}

std::string cross(double x, double y) {
  return fmt::format("<path d='M{:.1f},{:.1f}l10,10m0,-10l-10,10' stroke='black' stroke-width='2'/>\n", x - 5,
                     y - 5);
}

std::vector<double> epochs_of(const TuneCurve& curve) {
  std::vector<double> seconds;
  for (const TunePoint& point : curve.points) seconds.push_back(point.times.epoch);
  return seconds;
}

/// The next of 1, 2, 5, 10, ... times a power of ten: where an axis may end.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0})
    if (value <= step * power) return step * power;
  return 10 * power;
}

Panel epoch_panel(const TuneReport& report) {
  double most = 0;
  for (const TuneCurve& curve : report.curves) most = std::max(most, std::ranges::max(epochs_of(curve)));
  for (const MeasuredRun& run : report.measured) most = std::max(most, run.epoch_seconds);
  return {.top = 390, .most = round_up(most), .label = "an epoch, seconds"};
}

}  // namespace

std::string tune_svg(const TuneReport& report) {
  const Panel hits{.top = 40, .most = 100, .label = "hit rate, %"}, epochs = epoch_panel(report);
  std::string out =
      "<svg xmlns='http://www.w3.org/2000/svg' width='820' height='710' font-family='sans-serif' "
      "font-size='12'>\n"
      "<rect width='820' height='710' fill='white'/>\n";
  out += fmt::format("<text x='70' y='24'>{}: {} of {} batches</text>\n", xml_text(report.name),
                     report.batches, report.epoch_batches);
  out += axes(hits) + axes(epochs);
  double legend = 56;
  const auto tell = [&](const std::string& text, const char* colour) {
    out += fmt::format("<text x='590' y='{:.0f}' fill='{}'>{}</text>\n", legend, colour, xml_text(text));
    legend += 18;
  };
  for (std::size_t c = 0; c < report.curves.size(); ++c) {
    const TuneCurve& curve = report.curves[c];
    const char* const colour = kColours[c % std::size(kColours)];
    std::vector<double> percents;
    for (const double rate : curve.hit_rate) percents.push_back(100 * rate);
    out += line(hits, percents, colour) + line(epochs, epochs_of(curve), colour);
    tell(curve.policy, colour);
  }
  const std::size_t chosen = report.advice.point;
  const TuneCurve& first = report.curves.front();
  const auto at = static_cast<double>(chosen);
  out += ring(hits.x(at), hits.y(100 * first.hit_rate[chosen]));
  out += ring(epochs.x(at), epochs.y(first.points[chosen].times.epoch));
  tell(fmt::format("o recommended: {}%", chosen), "black");
  for (const MeasuredRun& run : report.measured) {
    const auto ratio = static_cast<double>(point_of(report, run));
    out += cross(hits.x(ratio), hits.y(100 * run.hit_rate)) +
           cross(epochs.x(ratio), epochs.y(run.epoch_seconds));
    tell(fmt::format("x measured: {}", run.name), "black");
  }
  return out + "</svg>\n";
}

}  // namespace hopfeed
