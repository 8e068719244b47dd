#pragma once
// Bars, as a picture.

#include <string>
#include <vector>

namespace tandem::command {

/// One bar of what was reached in front of one of what can be.
struct Bar {
    std::string label;
    std::string text;   ///< the numbers, behind the bar
    double length = 0;  ///< of what was reached, where what can be has the length 1; a negative one is not drawn
    bool has_limit = true;
};

struct BarGroup {
    std::string title;
    std::vector<Bar> bars;
};

struct Chart {
    std::string title;
    std::string description;  ///< for who can't see it, and below the title
    std::vector<BarGroup> groups;
};

/// The chart as an SVG 1.1 document with horizontal bars. Text is any UTF-8 without control characters (`one_line`).
std::string svg_text(const Chart& chart);

}  // namespace tandem::command
