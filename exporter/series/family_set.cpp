#include "exporter/series/family_set.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpusnoop::series {

std::vector<Label> process_labels(bool pid_label) {
    std::vector<Label> labels = {{"comm"}, {"script"}, {"container_id"}, {"slurm_job_id"}};
    if (pid_label) {
        labels.push_back({"pid"});
    }
    return labels;
}

FamilySet::FamilySet(Budget budget, bool pid_label)
    : budget_(std::move(budget)), pid_label_(pid_label) {}

Family &FamilySet::counter(std::string name, std::string help, std::vector<Label> own,
                           double divisor) {
    return add(std::move(name), std::move(help), Type::counter, std::move(own), divisor, {});
}

Family &FamilySet::gauge(std::string name, std::string help, std::vector<Label> own,
                         double divisor) {
    return add(std::move(name), std::move(help), Type::gauge, std::move(own), divisor, {});
}

Family &FamilySet::histogram(std::string name, std::string help, std::vector<Label> own,
                             std::vector<std::uint64_t> bounds, double divisor) {
    return add(std::move(name), std::move(help), Type::histogram, std::move(own), divisor,
               std::move(bounds));
}

Family &FamilySet::add(std::string name, std::string help, Type type, std::vector<Label> own,
                       double divisor, std::vector<std::uint64_t> bounds) {
    std::vector<Label> labels = process_labels(pid_label_);
    labels.insert(labels.end(), own.begin(), own.end());
    return add({.name = "gpusnoop_" + std::move(name),
                .help = std::move(help),
                .type = type,
                .labels = std::move(labels),
                .divisor = divisor,
                .bounds = std::move(bounds)});
}

Family &FamilySet::add(Description description) {
    const std::uint32_t budget = budget_(description.name);
    return families_.emplace_back(std::move(description), budget);
}

void FamilySet::rebalance() {
    for (Family &family : families_) {
        family.rebalance();
    }
}

void FamilySet::remove(Owner owner) {
    for (Family &family : families_) {
        family.remove(owner);
    }
}

std::vector<FamilySnapshot> FamilySet::snapshots() const {
    std::vector<FamilySnapshot> snapshots;
    for (const Family &family : families_) {
        snapshots.push_back(family.snapshot());
    }
    return snapshots;
}

std::map<std::string, std::uint64_t> FamilySet::folded() const {
    std::map<std::string, std::uint64_t> folded;
    for (const Family &family : families_) {
        folded[family.description().name] += family.folded();  // some share their name
    }
    return folded;
}

void PageFamilies::add(const FamilySet &page, std::vector<FamilySnapshot> &snapshots) {
    for (const auto &[family, folded] : page.folded()) {
        std::uint64_t &most = folded_[family];
        most = std::max(most, folded);
    }
    std::ranges::move(page.snapshots(), std::back_inserter(snapshots));
}

void PageFamilies::add_to(std::map<std::string, std::uint64_t> &folded) const {
    folded.insert(folded_.begin(), folded_.end());
}

}  // namespace gpusnoop::series
