"""Python imports this module when it starts. Once matplotlib.pyplot is
imported, plt.show() saves each open figure as plot_1.png, plot_2.png and so
on: there is no screen to show it on."""

import os
import sys


def _configure():
    # What the image has there, as a list of its fonts, saves time; but it may
    # be read-only, about which matplotlib complains.
    given = os.environ.get("MPLCONFIGDIR")
    if given and os.access(given, os.W_OK):
        return
    ours = "/tmp/matplotlib"
    os.environ["MPLCONFIGDIR"] = ours
    if not given or os.path.isdir(ours):
        return
    import shutil

    try:
        shutil.copytree(given, ours)
    except (OSError, shutil.Error):
        pass


def _free_name():
    n = 1
    while os.path.lexists("plot_%d.png" % n):
        n += 1
    return "plot_%d.png" % n


def _patch(pyplot):
    def show(*args, **kwargs):
        for number in pyplot.get_fignums():
            pyplot.figure(number).savefig(_free_name())
        pyplot.close("all")

    def show_figure(figure, *args, **kwargs):
        figure.savefig(_free_name())

    pyplot.show = show
    figure = sys.modules.get("matplotlib.figure")
    if figure is not None and hasattr(figure, "Figure"):
        figure.Figure.show = show_figure


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib":
            _configure()
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            _patch(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
