package publisher

import "strings"

// words are the few phrases that a page adds to what the card says.
type words struct {
	Add, AddHow, Address, QR, Examples, ExamplesNote string
	Details, Publisher, Origin, Version, Card        string
	Endpoint, Website, Source, Apps, ListOf          string
}

// wordsFor gives the phrases in Chinese for Chinese pages, else in English.
func wordsFor(lang string) words {
	if primary, _, _ := strings.Cut(strings.ToLower(lang), "-"); primary == "zh" {
		return words{
			Add:          "添加此应用",
			AddHow:       "把下面的地址粘贴到你的智能体宿主中，或扫描二维码。打开它只会开始一次审查：不会授予任何访问权限，也不会运行任何东西。",
			Address:      "应用地址",
			QR:           "此页面地址的二维码",
			Examples:     "可以这样提问",
			ExamplesNote: "示例只是文字，查看它们不会运行任何东西。",
			Details:      "详细信息",
			Publisher:    "发布者",
			Origin:       "来源",
			Version:      "版本",
			Card:         "应用卡片",
			Endpoint:     "连接端点",
			Website:      "网站",
			Source:       "源代码",
			Apps:         "应用",
			ListOf:       "应用发布于",
		}
	}
	return words{
		Add:          "Add this app",
		AddHow:       "Paste this address into your agent host, or scan the code. Opening it starts a review only: it gives no access and runs nothing.",
		Address:      "App address",
		QR:           "QR code of this page's address",
		Examples:     "What you can ask",
		ExamplesNote: "Examples are text only. Reading them runs nothing.",
		Details:      "Details",
		Publisher:    "Publisher",
		Origin:       "Origin",
		Version:      "Version",
		Card:         "Server card",
		Endpoint:     "Endpoint",
		Website:      "Website",
		Source:       "Source code",
		Apps:         "Apps",
		ListOf:       "Apps published at",
	}
}
