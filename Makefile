# What there is to do on Debian 12 and 13; see README.md.
.PHONY: help run demo test dist

help:
	@echo 'make run    install what is missing, build, and run the exporter on config.yaml'
	@echo 'make demo   the same with Prometheus and Alertmanager, and a program that leaks'
	@echo 'make test   install what is missing, build, and run all tests but the long ones'
	@echo 'LABEL=all make test     everything, as CI does'
	@echo 'LABEL=quick make test   only the tests of one label: quick, kernel, e2e, long, vm or arm64'
	@echo 'make dist   build a release into dist/: tarball, packages, checksums, bill of materials'
	@echo 'ARCH=all make dist      the same for amd64 and arm64, on amd64; ARCH=arm64: for arm64 alone'

run:
	@scripts/run.sh

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

dist:
	@scripts/dist.sh
