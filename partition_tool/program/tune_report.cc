// See tune_report.h.
#include "partition_tool/program/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hopfeed {
namespace {

constexpr const char* kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                    "#ff7f0e", "#17becf", "#7f7f7f"};

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

bool shown(const TuneReport& report, std::size_t i) {
  return i % 10 == 0 || i == 5 || i == report.advice.point;
}

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

struct Place {
  double x = 0, y = 0;
};
/// Of a ratio and a hit rate in the drawing.
Place place(std::size_t percent, double hit_rate) {
  return {.x = 70 + 5.0 * static_cast<double>(percent), .y = 340 - 300 * hit_rate};
}

std::string svg_axes() {
  std::string out;
  for (int i = 0; i <= 100; i += 10) {
    const Place x = place(static_cast<std::size_t>(i), 0), y = place(0, i / 100.0);
    out += fmt::format("<line x1='{0:.0f}' y1='40' x2='{0:.0f}' y2='340' stroke='#ddd'/>\n", x.x);
    out += fmt::format("<line x1='70' y1='{0:.0f}' x2='570' y2='{0:.0f}' stroke='#ddd'/>\n", y.y);
    out += fmt::format("<text x='{:.0f}' y='356' text-anchor='middle'>{}</text>\n", x.x, i);
    out += fmt::format("<text x='62' y='{:.0f}' text-anchor='end'>{}</text>\n", y.y + 4, i);
  }
  out += "<text x='320' y='380' text-anchor='middle'>rows held, % of the rows of each type</text>\n";
  out += "<text transform='translate(22,190) rotate(-90)' text-anchor='middle'>hit rate, %</text>\n";
  return out;
}

}  // namespace

std::string tune_table(const TuneReport& report) {
  std::string out = fmt::format("{}: {} of {} batches of the epoch made\n", report.dataset, report.batches,
                                report.epoch_batches);
  const TuneRates& rates = report.rates;
  out += fmt::format("a worker samples a batch in {:.2f} ms and writes {}/s; the consumer completes {}/s\n",
                     rates.sample_seconds * 1e3, bytes_text(rates.gather_bytes_per_second),
                     bytes_text(rates.complete_bytes_per_second));
  out += rates.link_bytes_per_second
             ? fmt::format("the link carries {}/s\n", bytes_text(*rates.link_bytes_per_second))
             : std::string("no link (worker mode): nothing moves\n");
  out += rates.train_seconds
             ? fmt::format("training takes {:.2f} ms a batch\n", *rates.train_seconds * 1e3)
             : std::string("training is not known and left out; --train-ms or --summary tells\n");
  for (const TuneCurve& curve : report.curves) {
    out += fmt::format(
        "\n{:10} {:>7} {:>9} {:>11} {:>11} | seconds: {:>7} {:>7} {:>7} {:>8} {:>7} {:>7}  binds\n",
        curve.policy, "held %", "hits %", "gathered", "held", "sample", "gather", "move", "complete", "train",
        "epoch");
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      if (!shown(report, i)) continue;
      const EpochTimes& times = curve.points[i].times;
      out += fmt::format(
          "{:10} {:7} {:9.2f} {:>11} {:>11} |          {:7.3f} {:7.3f} {:7.3f} {:8.3f} {:7.3f} {:7.3f}  {}\n",
          i == report.advice.point && &curve == report.curves.data() ? "  -->" : "", i,
          100 * curve.hit_rate[i], bytes_text(curve.sent_bytes[i]), bytes_text(curve.held_bytes[i]),
          times.sample, times.gather, times.move, times.complete, times.train, times.epoch,
          to_string(times.binds));
    }
  }
  if (report.evictions.empty()) return out;
  out += fmt::format("\n{:20}", "evictions, held %");
  for (const double ratio : kEvictionRatios) out += fmt::format(" {:6.0f}", 100 * ratio);
  for (const TuneEviction& eviction : report.evictions) {
    out += fmt::format("\n  {:18}", eviction.eviction);
    for (const double rate : eviction.hit_rate) out += fmt::format(" {:6.2f}", 100 * rate);
  }
  return out + "\n";
}

std::string tune_drawing(const TuneReport& report) {
  constexpr int kHeight = 11, kWidth = 51;
  std::vector<std::string> rows(kHeight, std::string(kWidth, ' '));
  for (auto curve = report.curves.rbegin(); curve != report.curves.rend();
       ++curve) {  // the first lies on top
    for (int x = 0; x < kWidth; ++x) {
      const double rate = curve->hit_rate[static_cast<std::size_t>(2 * x)];
      const auto y = std::clamp(static_cast<int>(std::lround(rate * (kHeight - 1))), 0, kHeight - 1);
      rows[static_cast<std::size_t>(kHeight - 1 - y)][static_cast<std::size_t>(x)] = curve->policy.front();
    }
  }
  std::string out = "\nhit rate, %\n";
  for (int y = 0; y < kHeight; ++y)
    out += fmt::format("{:4} |{}\n", 100 - 10 * y, rows[static_cast<std::size_t>(y)]);
  out +=
      fmt::format("     +{}\n      0{:>24}{:>25}   rows held, %\n     ", std::string(kWidth, '-'), 50, 100);
  for (const TuneCurve& curve : report.curves)
    out += fmt::format(" {}: {}", curve.policy.front(), curve.policy);
  return out + "\n";
}

std::string tune_svg(const TuneReport& report) {
  std::string out =
      "<svg xmlns='http://www.w3.org/2000/svg' width='760' height='400' font-family='sans-serif' "
      "font-size='12'>\n"
      "<rect width='760' height='400' fill='white'/>\n";
  out += fmt::format("<text x='70' y='24'>{}: {} of {} batches</text>\n", xml_text(report.dataset),
                     report.batches, report.epoch_batches);
  out += svg_axes();
  for (std::size_t c = 0; c < report.curves.size(); ++c) {
    const TuneCurve& curve = report.curves[c];
    const char* colour = kColours[c % std::size(kColours)];
    out += fmt::format("<polyline fill='none' stroke='{}' stroke-width='2' points='", colour);
    for (std::size_t i = 0; i < curve.hit_rate.size(); ++i) {
      const Place at = place(i, curve.hit_rate[i]);
      out += fmt::format("{:.1f},{:.1f} ", at.x, at.y);
    }
    out += fmt::format("'/>\n<text x='590' y='{}' fill='{}'>{}</text>\n", 60 + 18 * c, colour,
                       xml_text(curve.policy));
  }
  const std::size_t chosen = report.advice.point;
  const Place mark = place(chosen, report.curves.front().hit_rate[chosen]);
  out += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='6' fill='none' stroke='black' stroke-width='2'/>\n",
                     mark.x, mark.y);
  out +=
      fmt::format("<text x='590' y='{}'>o recommended: {}%</text>\n", 60 + 18 * report.curves.size(), chosen);
  return out + "</svg>\n";
}

nlohmann::json tune_json(const TuneReport& report) {
  using nlohmann::json;
  json curve = json::array();
  for (const TuneCurve& of : report.curves) {
    for (std::size_t i = 0; i < of.points.size(); ++i) {
      const EpochTimes& times = of.points[i].times;
      curve.push_back({{"policy", of.policy},
                       {"ratio", of.points[i].ratio},
                       {"hit_rate", of.hit_rate[i]},
                       {"bytes_per_batch", of.sent_bytes[i]},
                       {"held_bytes_per_batch", of.held_bytes[i]},
                       {"held_rows_bytes", of.points[i].held_bytes},
                       {"epoch_seconds", times.epoch},
                       {"stages",
                        {{"sample", times.sample},
                         {"gather", times.gather},
                         {"move", times.move},
                         {"complete", times.complete},
                         {"train", times.train}}},
                       {"binds", to_string(times.binds)}});
    }
  }
  json evictions = json::array();
  for (const TuneEviction& eviction : report.evictions)
    for (std::size_t i = 0; i < eviction.hit_rate.size(); ++i)
      evictions.push_back({{"eviction", eviction.eviction},
                           {"ratio", kEvictionRatios[i]},
                           {"hit_rate", eviction.hit_rate[i]}});
  const TuneRates& rates = report.rates;
  json machine = {{"sample_seconds", rates.sample_seconds},
                  {"gather_bytes_per_second", rates.gather_bytes_per_second},
                  {"complete_bytes_per_second", rates.complete_bytes_per_second},
                  {"num_workers", rates.num_workers}};
  if (rates.link_bytes_per_second) machine["link_bytes_per_second"] = *rates.link_bytes_per_second;
  if (rates.train_seconds) machine["train_seconds"] = *rates.train_seconds;
  return {{"dataset", report.dataset},
          {"batches", report.batches},
          {"epoch_batches", report.epoch_batches},
          {"machine", std::move(machine)},
          {"curve", std::move(curve)},
          {"evictions", std::move(evictions)},
          {"recommended",
           {{"ratio", report.curves.front().points[report.advice.point].ratio},
            {"reason", report.advice.reason}}}};
}

}  // namespace hopfeed
