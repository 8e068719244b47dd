// Own code: Debian has no C++ library for charts in SVG that is worth the dependency, and bars are rectangles.
#include "tools/chart.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tandem::command {
namespace {

// In pixels. Characters of the fonts below are at most so wide on the average.
constexpr double character_width = 7.2;
constexpr double margin = 20;
constexpr double bars_left = 270;
constexpr double unit_width = 420;  // of a bar of length 1
constexpr double max_length = 1.6;  // longer bars are cut; their numbers tell
constexpr double bar_height = 12;
constexpr double row_height = 26;
constexpr double group_height = 34;
constexpr double head_height = 74;

std::string escaped(const std::string& text) {
    std::string result;
    for (const char character : text) {
        switch (character) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            default:
                result += character;
        }
    }
    return result;
}

std::string text_at(double x, double y, const char* style, const std::string& text) {
    return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", style, x, y, escaped(text));
}

std::string rectangle(double x, double y, double width, double height, const char* style) {
    return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", style, x, y, width,
                       height);
}

// The limit's bar is a little higher than the one in front of it, which would else hide it.
std::string bar_at(double y, const Bar& bar) {
    const double middle = y + row_height / 2;
    const double length = std::min(bar.length, max_length);
    std::string text = text_at(bars_left - 10, middle + 4, "label", bar.label);
    if (bar.length >= 0 && bar.has_limit)
        text += rectangle(bars_left, middle - bar_height / 2 - 3, unit_width, bar_height + 6, "limit");
    if (bar.length >= 0) text += rectangle(bars_left, middle - bar_height / 2, length * unit_width, bar_height, "library");
    const double end = bar.length < 0 ? 0 : std::max(length, bar.has_limit ? 1.0 : 0.0);
    return text + text_at(bars_left + end * unit_width + 8, middle + 4, "number", bar.text);
}

double text_end(const Bar& bar) {
    const double end = bar.length < 0 ? 0 : std::max(std::min(bar.length, max_length), bar.has_limit ? 1.0 : 0.0);
    return bars_left + end * unit_width + 8 + character_width * static_cast<double>(bar.text.size());
}

}  // namespace

std::string svg_text(const Chart& chart) {
    double height = head_height + margin;
    double width = bars_left + unit_width;
    width = std::max({width, margin + 9.5 * static_cast<double>(chart.title.size()),
                      margin + character_width * static_cast<double>(chart.description.size())});
    for (const BarGroup& group : chart.groups) {
        height += group_height + row_height * static_cast<double>(group.bars.size());
        for (const Bar& bar : group.bars)
            width = std::max(width, text_end(bar));
    }
    width += margin;
    std::string text = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" role=\"img\" aria-labelledby=\"title description\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n"
        "<title id=\"title\">{2}</title>\n<desc id=\"description\">{3}</desc>\n"
        "<style>\n"
        "text {{ font-family: 'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif; font-size: 12px; fill: #222222; }}\n"
        ".heading {{ font-size: 16px; font-weight: bold; }}\n"
        ".group {{ font-size: 13px; font-weight: bold; }}\n"
        ".label {{ text-anchor: end; }}\n"
        ".limit {{ fill: #cccccc; }}\n"
        ".library {{ fill: #1f6fb2; }}\n"
        ".background {{ fill: #ffffff; }}\n"
        "</style>\n",
        width, height, escaped(chart.title), escaped(chart.description));
    text += rectangle(0, 0, width, height, "background");
    text += text_at(margin, 30, "heading", chart.title);
    text += text_at(margin, 52, "number", chart.description);
    double y = head_height;
    for (const BarGroup& group : chart.groups) {
        text += text_at(margin, y + 20, "group", group.title);
        y += group_height;
        for (const Bar& bar : group.bars) {
            text += bar_at(y, bar);
            y += row_height;
        }
    }
    return text + "</svg>\n";
}

}  // namespace tandem::command
