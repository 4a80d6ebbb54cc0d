# The screen of a sandbox, as its user: an X server that speaks RFB at localhost:5900, a window manager, a panel. It is started
# once and then looks after itself.
server=$(command -v Xtigervnc || command -v Xvnc) || { echo "the image has no X server for VNC" >&2; exit 1; }
command -v xset >/dev/null || { echo "the image has no xset, by which a screen is watched over" >&2; exit 1; }
mkdir /tmp/screen 2>/dev/null || exit 0 # it has been started: by an earlier process of the host's
mkdir -p -m 0700 "$XDG_RUNTIME_DIR"
mkdir -p -m 1777 /tmp/.X11-unix

# What is under the right button. Whoever has a menu of their own keeps it.
menu=$HOME/.config/openbox/menu.xml
if [ ! -e "$menu" ]; then
	mkdir -p "${menu%/*}"
	cat >"$menu" <<-'END'
		<?xml version="1.0" encoding="UTF-8"?>
		<openbox_menu xmlns="http://openbox.org/3.4/menu">
		<menu id="root-menu" label="Sandbox">
		<item label="Terminal"><action name="Execute"><command>xterm -fa Monospace -fs 11</command></action></item>
		<item label="Browser"><action name="Execute"><command>chromium</command></action></item>
		<separator/>
		<item label="Restart the window manager"><action name="Restart"/></item>
		</menu>
		</openbox_menu>
	END
fi

cat >/tmp/screen/panel <<-'END'
	rounded = 0
	background_color = #22303d 100
	rounded = 3
	background_color = #3f5870 100
	panel_items = LTC
	panel_size = 100% 30
	panel_background_id = 1
	launcher_padding = 6 2 6
	launcher_icon_size = 22
	launcher_item_app = /usr/share/applications/debian-xterm.desktop
	launcher_item_app = /usr/share/applications/chromium.desktop
	taskbar_padding = 4 2 4
	task_font_color = #ffffff 100
	task_maximum_size = 240 30
	task_active_background_id = 2
	task_padding = 6 2 6
	time1_format = %H:%M
	clock_font_color = #ffffff 100
	clock_padding = 10 0
END

# keep runs a program for as long as there is a screen.
keep() {
	while xset q >/dev/null 2>&1; do
		"$@"
		sleep 1
	done
}

# The server says on descriptor 3 that it is ready; the others begin then. They end with it, and all begin again.
(
	while :; do
		rm -f /tmp/.X1-lock /tmp/.X11-unix/X1
		"$server" :1 -displayfd 3 -rfbport 5900 -localhost -SecurityTypes None -AlwaysShared -desktop Sandbox \
			-geometry 1280x800 -depth 24 -nolisten tcp 3>&1 >>/tmp/screen/log 2>&1 | {
			read -r ready || exit
			exec >>/tmp/screen/log 2>&1
			xsetroot -solid '#35506b' -cursor_name left_ptr
			! command -v tint2 >/dev/null || keep tint2 -c /tmp/screen/panel &
			for manager in openbox fluxbox icewm xfwm4; do
				! command -v "$manager" >/dev/null || break
			done
			keep "$manager" &
			wait
		}
		sleep 1
	done
) </dev/null >/dev/null 2>&1 &
